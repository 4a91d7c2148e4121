"""What an explanation is: causes with evidence and proof, and what stays unexplained."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

    from xlagraph.diff import Diff
    from xlagraph.graph import Module


@dataclass(frozen=True, slots=True)
class Evidence:
    """One line that supports a cause, with the instructions it cites."""

    text: str
    a: tuple[int, ...] = ()
    """Instructions of module A."""
    b: tuple[int, ...] = ()
    """Instructions of module B."""
    sources: tuple[str, ...] = ()
    """Source lines as ``file:line``."""


@dataclass(frozen=True, slots=True)
class BucketRow:
    """One coalesced collective as a row of its tensors."""

    instruction: int
    opcode: str
    tensors: tuple[str, ...]
    """Name of each tensor, else its shape."""
    shapes: tuple[str, ...]
    carried: tuple[bool, ...]
    """Whether each tensor came in as a parameter, that is from an earlier step."""


@dataclass(frozen=True, slots=True)
class Cause:
    """A named reason for a difference."""

    kind: str
    """Stable identifier, such as ``bucket-carry``; ``docs/causes.md`` lists them."""
    title: str
    """One sentence."""
    evidence: tuple[Evidence, ...]
    fix: str
    """One sentence."""
    share: float
    """Part of the differing instructions that this cause accounts for, 0 to 1."""
    proved: bool
    """Undoing this cause, with the others, made the modules equal."""
    proof: str
    """What was undone, in words."""
    expected: bool
    """Part of a normal warm-up rather than a problem."""
    a: frozenset[int]
    b: frozenset[int]
    """The instructions of A and of B that it accounts for."""


@dataclass(frozen=True, eq=False)
class Explanation:
    """Why B is another module than A."""

    diff: Diff
    verdict: str
    causes: tuple[Cause, ...]
    """Largest share first."""
    unexplained_a: tuple[int, ...]
    unexplained_b: tuple[int, ...]
    proved: bool
    """All causes undone, the modules are the same computation."""
    buckets_a: tuple[BucketRow, ...]
    buckets_b: tuple[BucketRow, ...]

    @property
    def unexplained_share(self) -> float:
        """Part of the differing instructions that no cause accounts for, 0 to 1."""
        total = self.diff.differing
        left_b = set(self.unexplained_b)
        left_a = set(self.unexplained_a)
        pairs = sum(1 for c in self.diff.changes if c.a in left_a and c.b in left_b)
        return (len(left_a) + len(left_b) - pairs) / total if total else 0.0


@dataclass(frozen=True, slots=True)
class Context:
    """What a capture knows of one module beyond its text; empty for a bare file."""

    parameters: Mapping[int, str] = field(default_factory=dict)
    """Parameter number to tensor name."""
    outputs: Mapping[int, str] = field(default_factory=dict)
    """Output number to tensor name."""
    created: Mapping[int, str] = field(default_factory=dict)
    """Output number to the ``file:line`` that made the live tensor."""
    holders: Mapping[int, str] = field(default_factory=dict)
    """Output number to what keeps the live tensor."""
    sync_kind: str = ""
    call_site: str = ""
    flushed: tuple[tuple[str, ...], ...] = ()
    """The tensors of each bucket that was emptied before the sync, in order of emptying."""
    waiting: tuple[str, ...] = ()
    """Tensors that sat in buckets as the sync began."""
    key: Mapping[str, str] = field(default_factory=dict)
    """Cache-key components."""

    def input_name(self, module: Module, parameter: int) -> str:
        """The tensor that this parameter of the entry computation is; ``""`` if not known."""
        return self.parameters.get(int(module.payloads[parameter]), "")
