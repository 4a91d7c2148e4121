"""Where links into a pair lead: to what differs, never to an equal row."""

from __future__ import annotations

from typing import TYPE_CHECKING

from xlagraph.cause.kinds import Section
from xlagraph.report.origins import origins

if TYPE_CHECKING:
    from collections.abc import Iterator

    from xlagraph.cause.model import Cause, Evidence, Explanation
    from xlagraph.graph import Module

    Goal = tuple[str, str, int]
    """View of the pair, side, number: ``("i", "b", 12)`` an instruction, ``("out", "b", 3)``."""


class Links:
    """The goals within one pair."""

    def __init__(self, explanation: Explanation):
        self.explanation = explanation
        self.origins = origins(explanation)
        self._slots = dict(_slots(explanation))

    def goals(self, evidence: Evidence) -> list[Goal]:
        """The differing instructions that it cites; if none differs, inputs and outputs that do."""
        cited = [("a", i) for i in evidence.a] + [("b", i) for i in evidence.b]
        differing: list[Goal] = [("i", *one) for one in cited if one in self.origins.rows]
        slots = (self._slots.get(one) for one in cited)
        return differing or list(dict.fromkeys(goal for goal in slots if goal))

    def opening(self, cause: Cause) -> str:
        """The part of an address that shows a cause best: its buckets, or where it begins."""
        claimed = {("a", i) for i in cause.a} | {("b", i) for i in cause.b}
        if cause.kind.section is Section.COLLECTIVES and claimed & self._buckets():
            return "collectives"
        goals = [goal for evidence in cause.evidence for goal in self.goals(evidence)]
        roots = self._roots(cause)
        goal = next((g for g in goals if self.origins.rows.get(g[1:]) in roots), None)
        if goal is None and roots:
            goal = ("i", "a", roots[0]) if roots[0] >= 0 else ("i", "b", -1 - roots[0])
        return within(goal or next(iter(goals), ("io", "", 0)))

    def _buckets(self) -> set[tuple[str, int]]:
        explanation = self.explanation
        found = {("a", row.instruction) for row in explanation.buckets_a}
        return found | {("b", row.instruction) for row in explanation.buckets_b}

    def _roots(self, cause: Cause) -> list[int]:
        """Its origins; for a cause said anew over a run those of the one it was made of."""
        causes = self.explanation.causes
        number = next((k for k, known in enumerate(causes) if known.a == cause.a), -1)
        return self.origins.of_cause(number) if number >= 0 else []


def within(goal: Goal) -> str:
    """The goal as part of an address: ``i/b12``, ``io/out-b3``."""
    view, side, number = goal
    if view == "i":
        return f"i/{side}{number}"
    return f"io/{view}-{side}{number}" if side else "io"


def _slots(explanation: Explanation) -> Iterator[tuple[tuple[str, int], Goal]]:
    """Instructions that are an input or output at another position, or on one side only.

    One on the other side stands for its partner.
    """
    diff = explanation.diff
    partners = {"a": diff.match.to_b, "b": diff.match.to_a}
    for kind, slots, places in (
        ("in", diff.parameters, _parameters),
        ("out", diff.outputs, lambda module: module.outputs),
    ):
        for slot in slots:
            if slot.a == slot.b:
                continue
            for side, position, module in (("a", slot.a, diff.a), ("b", slot.b, diff.b)):
                if position is None:
                    continue
                i = places(module)[position]
                goal = (kind, side, position)
                yield (side, i), goal
                partner = partners[side][i]
                if partner >= 0:
                    yield ("b" if side == "a" else "a", partner), goal


def _parameters(module: Module) -> tuple[int, ...]:
    return tuple(module.entry_computation.parameters)
