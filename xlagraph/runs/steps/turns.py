"""What ran at each place of a program, turn by turn: what followed what, and whose hits it were."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from xlagraph.run.records import EARLIER_COMPILES, PERSISTENT_CACHE
from xlagraph.runs.steps.spent import spans_of

if TYPE_CHECKING:
    from xlagraph.run.reader import Process
    from xlagraph.run.records import Frame, SyncRecord
    from xlagraph.runs.steps.spent import Span

CallPlace = tuple[str, str, tuple["Frame", ...]]
"""A process (its file), what was called there, and the call site."""


def call_place(process: Process, sync: SyncRecord) -> CallPlace:
    """Where a sync ran."""
    return process.file, sync.entry, sync.call_site


@dataclass(slots=True)
class Cost:
    """What one graph cost, over all processes."""

    compiles: int = 0
    hits: int = 0
    spans: list[Span] = field(default_factory=list)
    """Begin and end of each compile."""
    unnamed: int = 0
    """Hits at its places that ran a graph which is not known: it may have been this one."""


@dataclass(slots=True)
class _Turns:
    """What one place has seen so far."""

    first: SyncRecord
    last: SyncRecord
    count: int = 0
    graphs: set[tuple[str, ...]] = field(default_factory=set)
    """What ran there; an empty tuple for something that is not known."""


class Turns:
    """Gathers what ran at each place, as the syncs of each process go by in their order."""

    def __init__(self) -> None:
        self.costs: defaultdict[str, Cost] = defaultdict(Cost)
        """By digest."""
        self.unnamed = 0
        """Hits of which it is not known which graph they ran."""
        self.in_a_row: set[tuple[str, str]] = set()
        """Graphs that were compiled in two turns of a place, one right after the other."""
        self.followed: defaultdict[str, set[str]] = defaultdict(set)
        """By graph: the graphs known to have run in the next turn of its place."""
        self._places: dict[CallPlace, _Turns] = {}
        self._number: dict[tuple[str, int], int] = {}
        self._ran: set[tuple[str, str]] = set()

    def first(self, process: Process, sync: SyncRecord) -> SyncRecord:
        """The first sync that ran something at the place of a sync."""
        seen = self._places.get(call_place(process, sync))
        return seen.first if seen else sync

    def has(self, place: CallPlace) -> bool:
        """Whether anything ran there so far."""
        return place in self._places

    def ran(self, process: Process, digest: str) -> bool:
        """Whether a process is known to have run a graph."""
        return (process.file, digest) in self._ran

    def number(self, process: Process, sync: SyncRecord) -> int:
        """How often something had run at its place before a sync that compiled."""
        return self._number.get((process.file, sync.index), 0)

    def total(self, process: Process, sync: SyncRecord) -> int:
        """How often something ran at the place of a sync in all."""
        seen = self._places.get(call_place(process, sync))
        return seen.count if seen else 0

    def add(self, process: Process, sync: SyncRecord) -> None:
        """Takes in the next sync of a process; one that ran something."""
        seen = self._places.setdefault(call_place(process, sync), _Turns(sync, sync))
        if sync.outcome == "compile":
            self._number[process.file, sync.index] = seen.count
        self._ran.update((process.file, digest) for digest in sync.graphs)
        self._count(process, sync, seen)
        if seen.count:
            self._follow(seen.last, sync)
        if sync.graphs or sync.outcome != "hit":
            seen.graphs.add(sync.graphs)
        seen.last = sync
        seen.count += 1

    def _follow(self, before: SyncRecord, sync: SyncRecord) -> None:
        pairs = [(x, y) for x in before.graphs for y in sync.graphs]
        for x, y in pairs:
            self.followed[x].add(y)
        if before.outcome == sync.outcome == "compile":
            self.in_a_row.update(pairs)

    def _count(self, process: Process, sync: SyncRecord, seen: _Turns) -> None:
        """A hit without a name ran the graph of its place, if there has been but one."""
        if sync.outcome == "compile":
            for digest, span in zip(sync.graphs, spans_of(sync), strict=True):
                self.costs[digest].compiles += 1
                self.costs[digest].spans.append(span)
            return
        graphs, is_hit = sync.graphs, sync.outcome == "hit"
        if is_hit and not graphs and len(seen.graphs) == 1 and _knows_all(process):
            graphs = next(iter(seen.graphs))
        for digest in graphs:
            self.costs[digest].hits += 1
        if is_hit and not graphs:
            self.unnamed += 1
            for digest in {one for many in seen.graphs for one in many}:
                self.costs[digest].unnamed += 1


def _knows_all(process: Process) -> bool:
    """Whether every graph that the process ran was compiled under its eyes."""
    return not any(note.what in (EARLIER_COMPILES, PERSISTENT_CACHE) for note in process.notes)
