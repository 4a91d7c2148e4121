"""Whose story a run is told as, where several ranks ran the same graphs.

Clocks are not compared: which rank was quicker says nothing about a program. A rank that ran more
steps has seen more of what came of a graph.
"""

from __future__ import annotations

from collections import Counter
from operator import itemgetter
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

    from xlagraph.run.reader import Process, Run
    from xlagraph.run.records import GraphRecord


def leading(run: Run) -> dict[int, int]:
    """The place of each rank: those that ran the most steps first; of as many, the lowest."""
    steps: Counter[int] = Counter()
    for process in run.processes:
        steps[process.record.rank] += _steps(process)
    return {rank: place for place, rank in enumerate(sorted(steps, key=lambda r: (-steps[r], r)))}


def told_graphs(run: Run) -> Iterator[tuple[GraphRecord, Process]]:
    """Each distinct module once, in the order of steps, with the process that tells of it.

    That is one of the first in `leading` of the ranks that compiled it, so that what it ran before
    is known.
    """
    places = leading(run)
    found: dict[str, tuple[tuple[int, int], GraphRecord, Process]] = {}
    begun: Counter[int] = Counter()
    for process in sorted(run.processes, key=lambda one: places[one.record.rank]):
        rank = process.record.rank
        for record in process.graphs:
            sync = process.sync_at(record.sync)
            step = begun[rank] + (sync.step if sync else 0)
            found.setdefault(record.digest, ((step, places[rank]), record, process))
        begun[rank] += _steps(process)
    for _, record, process in sorted(found.values(), key=itemgetter(0)):
        yield record, process


def _steps(process: Process) -> int:
    return 1 + max((sync.step for sync in process.syncs), default=-1)
