"""The order in which a process ran the graphs of its steps."""

from __future__ import annotations

from collections import defaultdict
from itertools import groupby, pairwise
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from xlagraph.run.reader import Process
    from xlagraph.run.records import Frame, SyncRecord

MAX_PERIOD = 128
"""Steps after which an order is seen to come again."""
EVEN_GAPS = 2
"""So many equal distances, the first from the beginning, are no accident."""


class Turn(NamedTuple):
    """One step: the graph that it ran (None if that is not known), and its call site."""

    graph: str | None
    site: tuple[Frame, ...]


def step_turns(process: Process) -> tuple[Turn, ...]:
    """The steps of a process that ran something, in their order.

    A hit without a name is taken to have run the one graph that is known to have had such a
    fingerprint at its line: enough to see an order by, not to count hits.
    """
    steps = [s for s in process.syncs if s.ends_step and s.outcome != "empty"]
    known: defaultdict[tuple[object, ...], set[str]] = defaultdict(set)
    for sync in steps:
        if len(sync.graphs) == 1:
            known[_measure(sync)].update(sync.graphs)
    return tuple(Turn(_graph(sync, known), sync.call_site) for sync in steps)


def _measure(sync: SyncRecord) -> tuple[object, ...]:
    return sync.entry, sync.call_site, sync.fingerprint


def _graph(sync: SyncRecord, known: Mapping[tuple[object, ...], set[str]]) -> str | None:
    if sync.graphs:
        return sync.graphs[-1]
    candidates = known.get(_measure(sync), ())
    return next(iter(candidates)) if len(candidates) == 1 else None


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


def followers(graphs: Iterable[str | None]) -> dict[str, set[str]]:
    """By graph: those known to have run in the step after it."""
    found: defaultdict[str, set[str]] = defaultdict(set)
    for before, now in pairwise(graphs):
        if before and now:
            found[before].add(now)
    return found
