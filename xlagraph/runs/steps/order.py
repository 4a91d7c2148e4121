"""The order in which a process ran the graphs of its steps."""

from __future__ import annotations

from collections import defaultdict
from enum import Enum
from itertools import groupby, pairwise
from typing import TYPE_CHECKING, NamedTuple

from xlagraph.runs.steps.turns import call_place

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from xlagraph.run.reader import Process
    from xlagraph.run.records import Frame, SyncRecord
    from xlagraph.runs.steps.turns import CallPlace

MAX_PERIOD = 128
"""Steps after which an order is seen to come again."""
PHASES = 3
"""So often a graph is seen to begin or end a phase, if it always does."""
EVEN_GAPS = 2
"""So many equal distances, the first from the beginning, are no accident."""


class Turn(NamedTuple):
    """One step that ran something."""

    step: int
    site: tuple[Frame, ...]
    graphs: frozenset[str]
    """What it may have run: one graph if that is known, none if nothing is known."""

    @property
    def graph(self) -> str | None:
        """The graph that it ran, None if that is not known."""
        return next(iter(self.graphs)) if len(self.graphs) == 1 else None


class PlaceTurns(NamedTuple):
    """The graphs that ran at one place, by their numbers; None where that is not known."""

    turns: tuple[int | None, ...]
    graphs: tuple[int | None, ...]
    """Each once, in order of appearance."""


class Phase(str, Enum):
    """What a step is to the phases of a program whose parts run in turn."""

    __str__ = str.__str__

    BEGIN = "at the start of each phase"
    """The first of a phase: it takes in what the part before has left."""
    BEHIND = "behind another part"
    """A step whose tensors a copy shares that another part has made: that may come but once."""
    REST = "after the start of each phase"
    END = "at the end of each phase"
    """The last round of a sampler's loop: nothing is left to prepare for another one."""


def step_turns(process: Process) -> tuple[Turn, ...]:
    """The steps of a process that ran something, in their order.

    A hit without a name may have run the graphs before it that are known to have such a fingerprint
    at its line, else the only one that had run there: enough to see an order by, not to count hits.
    """
    steps = [s for s in process.syncs if s.ends_step and s.outcome != "empty"]
    known: defaultdict[tuple[object, ...], set[str]] = defaultdict(set)
    for sync in steps:
        if len(sync.graphs) == 1:
            known[_measure(sync)].update(sync.graphs)
    ran: defaultdict[CallPlace, set[str]] = defaultdict(set)
    found = []
    for sync in steps:
        here = ran[call_place(process, sync)]
        here.update(sync.graphs[-1:])
        graphs = (
            sync.graphs[-1:] or here & known[_measure(sync)] or (here if len(here) == 1 else ())
        )
        found.append(Turn(sync.step, sync.call_site, frozenset(graphs)))
    return tuple(found)


def _measure(sync: SyncRecord) -> tuple[object, ...]:
    return sync.entry, sync.call_site, sync.fingerprint


def comes_again(parts: Sequence[str | None]) -> bool:
    """Whether the parts come again in one order, each known part twice and more; None: any part."""
    names = {part for part in parts if part}
    if any(sum(part == name for part in parts) < 2 for name in names):
        return False
    longest = min(MAX_PERIOD, len(parts) // 2)
    return any(_has_period(parts, period, names) for period in range(len(names), longest + 1))


def _has_period(parts: Sequence[str | None], period: int, names: set[str]) -> bool:
    cycle: list[str | None] = [None] * period
    for k, part in enumerate(parts):
        if part and (cycle[k % period] or part) != part:
            return False
        cycle[k % period] = part or cycle[k % period]
    return names <= set(cycle)


def comes_in_phases(is_one: Sequence[bool]) -> bool:
    """Whether steps of one sort make up phases of their own among the others.

    Before all others, or behind them, or several at a time each time, or at even distances. What
    interrupts the others now and then does not.
    """
    runs = [(flag, len(list(members))) for flag, members in groupby(is_one)]
    inner = [(k, length) for k, (flag, length) in enumerate(runs) if flag]
    if all(k in (0, len(runs) - 1) for k, _ in inner):
        return True
    if all(length > 1 for _, length in inner):
        return True
    gaps = [length for flag, length in runs[: inner[-1][0]] if not flag]
    return len(gaps) >= EVEN_GAPS and len(set(gaps)) == 1


def begins_phases(turns: Sequence[Turn], graph: str) -> set[bool]:
    """Whether a step at another place came before it, of each step that is known to run it."""
    found = _after_others(turns, graph)
    return set(found) if len(found) >= PHASES else set()


def only_after_others(turns: Sequence[Turn], graph: str) -> bool:
    """The same of a graph that may have run but once: whether it always did."""
    return set(_after_others(turns, graph)) == {True}


def _after_others(turns: Sequence[Turn], graph: str) -> list[bool]:
    return [
        k == 0 or turns[k - 1].site != turn.site
        for k, turn in enumerate(turns)
        if turn.graph == graph
    ]


def ends_phases(turns: Sequence[Turn], graph: str) -> set[bool]:
    """Whether a step at another place came behind it, or none."""
    return begins_phases(turns[::-1], graph)


def parts_of_phases(
    turns: Sequence[Turn], site: tuple[Frame, ...]
) -> tuple[frozenset[str], frozenset[str]]:
    """The graphs that begin the phases of a place, and those that follow; none if some do both.

    Each stage of the program may have its own two; the very first step has no state yet.
    """
    runs = [list(run) for is_here, run in groupby(turns, lambda t: t.site == site) if is_here]
    begin = frozenset[str]().union(*(run[0].graphs for run in runs))
    rest = frozenset[str]().union(*(turn.graphs for run in runs for turn in run[1:]))
    are_apart = sum(len(run) > 1 for run in runs) >= PHASES and not begin & rest
    return (begin, rest) if are_apart and len(begin) <= len(rest) + 1 else (frozenset(),) * 2


def followers(graphs: Iterable[str | None]) -> dict[str, set[str]]:
    """By graph: those known to have run in the step after it."""
    found: defaultdict[str, set[str]] = defaultdict(set)
    for before, now in pairwise(graphs):
        if before and now:
            found[before].add(now)
    return found
