"""How the steps of a process go round from the start on: their cycle, and what settles in it."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import groupby
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from xlagraph.runs.steps.order import Turn

MAX_PERIOD = 128
"""The longest cycle that is looked for, in steps."""
TURNS = 3
"""A cycle is one if it was gone round so often."""
LEAST = 4
"""Steps that a cycle accounts for at least."""


@dataclass(frozen=True, slots=True)
class Cycle:
    """From the second turn on each step runs the graph that it ran a turn before.

    The first turn may have graphs of its own: state, gradients and copies come into being there.
    """

    period: int
    """Steps; 0 where there is no cycle."""
    firsts: dict[str, int]
    """By graph: its first step."""
    again: frozenset[str]
    """Graphs that may have run after the second turn."""
    turns: Sequence[Turn]
    end: int = 0
    """How many steps it accounts for."""

    def counterpart(self, graph: str) -> str | None:
        """What the first turn ran in place of a graph that every turn from the second on runs."""
        first = self.firsts.get(graph, 0)
        if graph in self.again and self.period <= first < 2 * self.period:
            return self.turns[first - self.period].graph
        return None

    def successor(self, graph: str) -> str | None:
        """What the second turn ran in place of a graph that only the first one had."""
        first = self.firsts.get(graph, self.period)
        if graph in self.again or first >= self.period:
            return None
        return self.turns[first + self.period].graph

    def has(self, graph: str) -> bool:
        """Whether every turn from the second on runs a graph; not if no step is known to."""
        return graph in self.again and self.firsts.get(graph, 2 * self.period) < 2 * self.period

    def is_kept(self) -> bool:
        """Whether its graphs come in its order wherever they follow each other behind its end.

        What ends a cycle, such as an evaluation, may begin it anew. Graphs that a coin picks go
        round for a while by chance.
        """
        again = self.again
        first = range(self.period, 2 * self.period)
        steps = (self.turns[k : self.end : self.period] for k in first)
        order = [frozenset[str]().union(*(turn.graphs for turn in one)) for one in steps]
        behind = (one.graph if one.graph in again else None for one in self.turns[self.end :])
        rows = (tuple(row) for is_own, row in groupby(behind, bool) if is_own)
        return all(any(_fits(row, order, k) for k in range(self.period)) for row in set(rows))


def _fits(row: Sequence[str | None], order: Sequence[frozenset[str]], begin: int) -> bool:
    return all(graph in order[(begin + k) % len(order)] for k, graph in enumerate(row))


def cycle_of(turns: Sequence[Turn]) -> Cycle:
    """The cycle that accounts for most of a process's steps, of several the shortest.

    Something new may end the cycle.
    """
    longest = min(MAX_PERIOD, len(turns) // TURNS)
    ends = {period: _end(turns, period) for period in range(1, longest + 1)}
    found = [
        p
        for p, end in ends.items()
        if end >= max(TURNS * p, LEAST) and _is_whole(turns, p) and _is_known(turns[2 * p : end])
    ]
    period = max(found, key=lambda p: (ends[p], -p), default=0)
    firsts: dict[str, int] = {}
    for k, turn in enumerate(turns):
        if turn.graph:
            firsts.setdefault(turn.graph, k)
    later = turns[2 * period : ends[period]] if period else ()
    again = frozenset(graph for turn in later for graph in turn.graphs)
    return Cycle(period, firsts, again, turns, ends.get(period, 0))


def _end(turns: Sequence[Turn], period: int) -> int:
    """How many steps a period accounts for, from the first one on: all later ones came before."""
    for k in range(2 * period, len(turns)):
        now, before = turns[k], turns[k - period]
        if now.site != before.site or not now.graphs & before.graphs:
            return k
    return len(turns)


def _is_known(later: Sequence[Turn]) -> bool:
    """Whether any step says which graph it ran: those that do not go with every cycle."""
    return any(len(turn.graphs) == 1 for turn in later)


def _is_whole(turns: Sequence[Turn], period: int) -> bool:
    """Whether the second turn does not go round several times itself: what came late and stays."""
    second = [turn[1:] for turn in turns[period : 2 * period]]
    parts = (part for part in range(1, period) if period % part == 0)
    return not any(second[part:] == second[:-part] for part in parts)
