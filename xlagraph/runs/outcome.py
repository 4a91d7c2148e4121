"""What an explanation of two modules comes to, without the modules."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from xlagraph.cause.model import Cause
from xlagraph.cause.verdict import Verdict
from xlagraph.message import Message

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from xlagraph.cause.model import Explanation
    from xlagraph.graph import Module


@dataclass(frozen=True, slots=True, eq=False)
class Outcome:
    """Why one graph of a run is another than an earlier one."""

    verdict: Verdict
    causes: tuple[Cause, ...]
    """Largest share first."""
    proved: bool
    same: bool
    """Both are the same computation."""
    unexplained_share: float
    """Part of the differing instructions that no cause accounts for, 0 to 1."""
    compared: Message
    """The outputs that the proof compares, in words; empty for all."""
    cited_a: Mapping[int, tuple[str, str]]
    """Name and opcode of the instructions of A that causes and their evidence speak of."""
    cited_b: Mapping[int, tuple[str, str]]

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
        return replace(self, causes=causes, cited_a={}, cited_b={})

    def instruction(self, side: str, number: int) -> tuple[str, str]:
        """Name and opcode of an instruction that is cited; `side` is ``a`` or ``b``."""
        return (self.cited_a if side == "a" else self.cited_b)[number]


def outcome_of(explanation: Explanation) -> Outcome:
    """What an explanation comes to."""
    diff, causes = explanation.diff, explanation.causes
    return Outcome(
        verdict=explanation.verdict,
        causes=causes,
        proved=explanation.proved,
        same=diff.same,
        unexplained_share=explanation.unexplained_share,
        compared=explanation.compared,
        cited_a=_cited(diff.a, (i for c in causes for many in _of_a(c) for i in many)),
        cited_b=_cited(diff.b, (i for c in causes for many in _of_b(c) for i in many)),
    )


def _of_a(cause: Cause) -> Sequence[Iterable[int]]:
    return [cause.a, *(one.a for one in cause.evidence)]


def _of_b(cause: Cause) -> Sequence[Iterable[int]]:
    return [cause.b, *(one.b for one in cause.evidence)]


def _cited(module: Module, numbers: Iterable[int]) -> dict[int, tuple[str, str]]:
    return {i: (module.names[i], module.opcodes[i]) for i in sorted(set(numbers))}


def _without_numbers(cause: Cause) -> Cause:
    evidence = tuple(replace(one, a=(), b=()) for one in cause.evidence)
    return replace(cause, evidence=evidence, a=frozenset(), b=frozenset())
