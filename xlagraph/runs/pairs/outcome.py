"""What an explanation of two modules comes to, without the modules."""

from __future__ import annotations

from array import array
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from xlagraph.canon.labels import Level, instruction_text, without_layout
from xlagraph.cause.model import Cause, Explanation, Scope
from xlagraph.cause.sources import line_of, stack
from xlagraph.cause.verdict import Place, Verdict
from xlagraph.diff import diff_modules
from xlagraph.facts.distributed.buckets import bucket_rows
from xlagraph.message import Message
from xlagraph.tensors import Tensor

if TYPE_CHECKING:
    from collections.abc import Iterable

    from xlagraph.cause.kinds import Kind
    from xlagraph.cause.model import Context
    from xlagraph.diff import Diff
    from xlagraph.graph import Module

MAX_TEXT = 4_000
"""Characters of a literal or of attributes that are kept."""
MAX_PLACES = 64
"""Places of what no cause accounts for that are kept; if there are more, none is."""


@dataclass(frozen=True, slots=True)
class Cited:
    """An instruction that a cause cites, as text."""

    shape: str
    opcode: str
    payload: str
    attributes: str
    tensor: Tensor | None
    """The tensor that it is, for a parameter that the capture knows."""


@dataclass(frozen=True, slots=True, eq=False)
class Outcome:
    """Why one graph of a run is another than an earlier one."""

    verdict: Verdict
    causes: tuple[Cause, ...]
    """Largest share first."""
    proved: bool
    same: bool
    """Both are the same computation."""
    unexplained_a: tuple[int, ...]
    unexplained_b: tuple[int, ...]
    """Instructions that no cause accounts for."""
    left: Place
    """The line that all of them were called from, as far as one is known."""
    left_at: tuple[Place, ...]
    """Where they stand in the program, as far as it is known; each place once, empty for many."""
    unexplained_share: float
    """Part of the differing instructions that no cause accounts for, 0 to 1."""
    compared: Message
    """The outputs that the proof compares, in words; empty for all."""
    scope: Scope
    level: Level
    """At which the instructions were paired."""
    partners: Sequence[int]
    """For each input of B the place of its partner in A, if that has the same shape, or -1."""
    first_a: Cited | None
    """What the first cause cites first in A, and in B."""
    first_b: Cited | None
    cited_a: Mapping[int, tuple[str, str]]
    """Name and opcode of the instructions of A that causes and their evidence speak of."""
    cited_b: Mapping[int, tuple[str, str]]

    @property
    def proved_kinds(self) -> frozenset[Kind]:
        """The kinds of its causes; none where they are not proved."""
        return frozenset(cause.kind for cause in self.causes) if self.proved else frozenset()

    def named(self, a: str, b: str) -> Outcome:
        """The same with both modules called by name in every sentence."""
        return replace(
            self,
            verdict=self.verdict.named(a, b),
            compared=self.compared.named(a, b),
            causes=tuple(cause.named(a, b) for cause in self.causes),
        )

    def in_short(self) -> Outcome:
        """The same without the instructions: what is kept of every pair of a run."""
        causes = tuple(_without_numbers(cause) for cause in self.causes)
        partners = array("i", self.partners)
        return replace(
            self,
            causes=causes,
            partners=partners,
            unexplained_a=(),
            unexplained_b=(),
            cited_a={},
            cited_b={},
        )

    def instruction(self, side: str, number: int) -> tuple[str, str]:
        """Name and opcode of an instruction that is cited; `side` is ``a`` or ``b``."""
        return (self.cited_a if side == "a" else self.cited_b)[number]


def outcome_of(explanation: Explanation, a: Context, b: Context) -> Outcome:
    """What an explanation comes to; `a` and `b`: what the capture knows of the two modules."""
    diff, causes = explanation.diff, explanation.causes
    cited = (one for cause in causes[:1] for one in cause.evidence if one.a or one.b)
    first = next(cited, None)
    return Outcome(
        verdict=explanation.verdict,
        causes=causes,
        proved=explanation.proved,
        same=explanation.same,
        unexplained_a=explanation.unexplained_a,
        unexplained_b=explanation.unexplained_b,
        left=explanation.left,
        left_at=_left_at(explanation),
        unexplained_share=explanation.unexplained_share,
        compared=explanation.compared,
        scope=explanation.scope,
        level=explanation.level,
        partners=_partners(diff),
        first_a=_first(diff.a, first.a, a) if first else None,
        first_b=_first(diff.b, first.b, b) if first else None,
        cited_a=_cited(diff.a, (i for c in causes for many in _of_a(c) for i in many)),
        cited_b=_cited(diff.b, (i for c in causes for many in _of_b(c) for i in many)),
    )


def explanation_of(
    outcome: Outcome, a: Module, b: Module, context_a: Context, context_b: Context
) -> Explanation:
    """The explanation that came to this: modules are compared again, causes are not searched again.

    The comparison is the same; the search and its proof are most of the work.
    """
    diff = diff_modules(a, b, known=(context_a.names(a), context_b.names(b)))
    if outcome.level is not Level.PARAMETER_ORDER:
        diff = diff_modules(diff.a, diff.b, outcome.level, diff.match.known)
    return Explanation(
        diff=diff,
        same=outcome.same,
        verdict=outcome.verdict,
        causes=outcome.causes,
        unexplained_a=outcome.unexplained_a,
        unexplained_b=outcome.unexplained_b,
        left=outcome.left,
        proved=outcome.proved,
        scope=outcome.scope,
        compared=outcome.compared,
        level=outcome.level,
        buckets_a=bucket_rows(diff.a, context_a),
        buckets_b=bucket_rows(diff.b, context_b),
    )


def _left_at(explanation: Explanation) -> tuple[Place, ...]:
    diff = explanation.diff
    sides = ((diff.a, explanation.unexplained_a), (diff.b, explanation.unexplained_b))
    found = dict.fromkeys(
        (line, stack(module, i))
        for module, members in sides
        for i in members
        if (line := line_of(module, i))
    )
    return tuple(Place(*one) for one in found) if len(found) <= MAX_PLACES else ()


def _partners(diff: Diff) -> tuple[int, ...]:
    a, b = (module.entry_computation.parameters for module in (diff.a, diff.b))
    found = [-1] * len(b)
    for x, y in ((slot.a, slot.b) for slot in diff.parameters):
        if x is not None and y is not None and diff.a.shapes[a[x]] == diff.b.shapes[b[y]]:
            found[y] = x
    return tuple(found)


def _first(module: Module, numbers: Sequence[int], context: Context) -> Cited | None:
    if not numbers:
        return None
    shape, opcode, payload, attributes = instruction_text(module, numbers[0], Level.NAMES)
    tensor = context.input_tensor(module, numbers[0]) if opcode == "parameter" else None
    return Cited(without_layout(shape), opcode, payload[:MAX_TEXT], attributes[:MAX_TEXT], tensor)


def _of_a(cause: Cause) -> Sequence[Iterable[int]]:
    return [cause.a, *(one.a for one in cause.evidence)]


def _of_b(cause: Cause) -> Sequence[Iterable[int]]:
    return [cause.b, *(one.b for one in cause.evidence)]


def _cited(module: Module, numbers: Iterable[int]) -> dict[int, tuple[str, str]]:
    return {i: (module.names[i], module.opcodes[i]) for i in sorted(set(numbers))}


def _without_numbers(cause: Cause) -> Cause:
    evidence = tuple(replace(one, a=(), b=()) for one in cause.evidence)
    return replace(cause, evidence=evidence, a=frozenset(), b=frozenset())
