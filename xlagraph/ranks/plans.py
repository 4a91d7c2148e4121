"""What each rank of a run ran, in its order, as far as its records tell."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from xlagraph.ranks.model import Executed, Plan
from xlagraph.run.records import EARLIER_COMPILES, LIMIT, PERSISTENT_CACHE

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Sequence

    from xlagraph.run.reader import Process, Run
    from xlagraph.run.records import SyncRecord


@dataclass(frozen=True, slots=True, eq=False)
class RankRecords:
    """One rank's part of a run."""

    rank: int
    process: Process
    syncs: tuple[SyncRecord, ...]
    plan: Plan


@dataclass(frozen=True, slots=True, eq=False)
class Job:
    """The ranks of a run."""

    ranks: tuple[RankRecords, ...]
    """By rank. Where all ran as often, each with its last process; else with that which ran most: a
    worker that a rank has started has its number too."""
    world: int
    """How many ranks the job has, as far as anybody says."""
    sources: tuple[str, ...]
    """Who says which rank is which."""
    began_late: bool
    """Some had compiled before the capture began."""


def job_of(run: Run) -> Job | None:
    """The ranks of a run; None where there is but one."""
    recorded = {graph.digest for process in run.processes for graph in process.graphs}
    stored = recorded.intersection(run.digests())
    rows: dict[int, list[RankRecords]] = {}
    for process in sorted(run.processes, key=lambda one: one.record.started):
        for rank in sorted({sync.rank for sync in process.syncs}):
            syncs = tuple(sync for sync in process.syncs if sync.rank == rank)
            if any(sync.outcome != "empty" for sync in syncs):
                plan = _plan(process, rank, syncs, stored)
                rows.setdefault(rank, []).append(RankRecords(rank, process, syncs, plan))
    were_restarted = len({len(many) for many in rows.values()}) == 1
    found = {rank: many[-1] if were_restarted else _longest(many) for rank, many in rows.items()}
    if len(found) < 2:
        return None
    records = [one.process.record for one in found.values()]
    return Job(
        ranks=tuple(found[rank] for rank in sorted(found)),
        world=max(max(found) + 1, *(record.world_size for record in records)),
        sources=tuple(sorted({record.rank_source for record in records if record.rank_source})),
        began_late=any(
            note.what == EARLIER_COMPILES for one in found.values() for note in one.process.notes
        ),
    )


def _longest(many: Sequence[RankRecords]) -> RankRecords:
    return max(many, key=lambda one: len(one.plan.executed))


def _plan(
    process: Process, rank: int, syncs: Sequence[SyncRecord], stored: Collection[str]
) -> Plan:
    """A rank's modules up to where hits were no longer recorded."""
    full = [note.sync for note in process.notes if note.what == LIMIT]
    kept = [sync for sync in syncs if not full or sync.index < full[0]]
    knows_all = not {note.what for note in process.notes} & {EARLIER_COMPILES, PERSISTENT_CACHE}
    executed = tuple(_executed(kept, stored, knows_all=knows_all))
    return Plan(rank, executed, ended=process.ended and not full and not process.unread_lines)


def _executed(
    syncs: Sequence[SyncRecord], stored: Collection[str], *, knows_all: bool
) -> Iterator[Executed]:
    """A hit without a name ran the graph of its place, if there has been but one."""
    seen: dict[object, set[tuple[str, ...]]] = {}
    for sync in syncs:
        if sync.outcome == "empty":
            continue
        at = seen.setdefault((sync.entry, sync.call_site), set())
        graphs = sync.graphs
        if not graphs and sync.outcome == "hit" and len(at) == 1 and knows_all:
            graphs = next(iter(at))
        if graphs or sync.outcome != "hit":
            at.add(graphs)
        for digest in graphs or ("",):
            yield Executed(sync.step, digest if digest in stored else "", sync.ends_step)
