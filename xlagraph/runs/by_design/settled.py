"""Graphs with which a program settled, whose difference from earlier ones nobody could prove.

A distillation ends its first stage, an average of the weights begins, an evaluation leaves
something to the step behind it: the graphs before and after have little in common, and what makes
them differ is guessed at best. What their steps show is whether they are still coming. At each
place of a program its steps fall into stages, each of which goes round in a cycle from its second
turn on. A graph of the first two turns of such a stage compiled once, and since then its steps
only hit. That costs its compile and no more, so it is told and is no alarm.

So is a stage in which parameters are trained that no graph before it took in, whatever is known of
the rest: a network that is grown, another adapter.

An alarm stays what is known better: a proved cause, a size, a number or a type; what comes and
goes, or ends a stage for the same graphs to come again; and more stages than a few.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from xlagraph.runs.by_design.meant import FEW
from xlagraph.runs.steps.cycle import Cycle, cycle_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from xlagraph.runs.steps.order import Turn

BEFORE = 2
"""Steps before a cycle begins: a loader's first sync has nothing to do, or little."""
LASTING = 8
"""A stage that nobody can explain lasts so many steps at least."""


@dataclass(frozen=True, slots=True)
class Stage:
    """Steps of one place, from the ``begin``-th there to before the ``end``-th."""

    begin: int
    cycle: Cycle
    """From a few steps after the begin on."""
    start: int
    """Where that is."""
    is_new: bool
    """It has graphs of its own, and others that ran before it never come again."""

    @property
    def end(self) -> int:
        """Behind its last step."""
        return self.start + self.cycle.end

    def has(self, first: int) -> bool:
        """Whether it settled with a graph whose first step at the place is known."""
        is_early = self.begin <= first < self.start + 2 * self.cycle.period
        return self.is_new and is_early and self.end - self.begin >= LASTING


def stages_of(turns: Sequence[Turn]) -> list[Stage]:
    """The stages that account for the steps of one place; none where they do not, or are many."""
    spans: list[tuple[int, int, Cycle]] = []
    begin = 0
    while begin < len(turns):
        tried = ((start, cycle_of(turns[start:])) for start in range(begin, begin + BEFORE + 1))
        start, cycle = next(((k, c) for k, c in tried if c.period), (begin, None))
        if cycle is None or len(spans) > FEW or _is_left(turns[start:], cycle):
            return []
        spans.append((begin, start, cycle))
        begin = start + cycle.end
    return [
        Stage(begin, cycle, start, is_new=_is_new(k, [cycle for _, _, cycle in spans]))
        for k, (begin, start, cycle) in enumerate(spans)
    ]


def _is_left(turns: Sequence[Turn], cycle: Cycle) -> bool:
    """Whether a graph that had run in a cycle ends it, and so there was none."""
    behind = turns[cycle.end].graphs if cycle.end < len(turns) else frozenset()
    return any(behind & turn.graphs for turn in turns[: cycle.end])


def _is_new(number: int, cycles: Sequence[Cycle]) -> bool:
    """Whether a stage has graphs that none before it had, and not all of those come again."""
    if number == 0:
        return True
    before = frozenset[str]().union(*(cycle.again for cycle in cycles[:number]))
    later = frozenset[str]().union(*(cycle.again for cycle in cycles[number:]))
    return bool(cycles[number].again - before) and bool(cycles[number - 1].again - later)
