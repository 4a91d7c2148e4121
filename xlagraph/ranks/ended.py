"""Ranks that have nothing more to run while others do."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from xlagraph.message import SourceLine
from xlagraph.ranks.model import STOPS, Reason
from xlagraph.runs.graphs.context import own_frame

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Sequence

    from xlagraph.ranks.divergence import Difference
    from xlagraph.ranks.model import Matching
    from xlagraph.ranks.plans import Job
    from xlagraph.run.reader import Run
    from xlagraph.run.records import Frame, SyncRecord


@dataclass(frozen=True, slots=True)
class LastStep:
    """Where ranks ended before others."""

    ranks: tuple[int, ...]
    step: int
    line: SourceLine | None
    """The program's line at which that step ended."""
    loop: SourceLine | None = None
    """Where the loop begins in which it did: the loop that they left."""

    @property
    def place(self) -> SourceLine | None:
        """The loop, else where the step ended."""
        return self.loop or self.line


def early_ranks(matching: Matching, found: Iterable[Difference]) -> frozenset[int]:
    """The ranks that are waited for and have ended; where none stops, those with fewer steps."""
    if matching.outcome in STOPS:
        if matching.reason is not Reason.ENDED:
            return frozenset()
        standing = {rank for wait in matching.waits for rank in wait.ranks}
        missing = {rank for wait in matching.waits if wait.is_root for rank in wait.missing}
        return frozenset(missing - standing)
    ends = (one for one in found if one.is_end)
    return frozenset(rank for one in ends for rank in (one.others if one.ran else one.ranks))


def last_steps(run: Run, job: Job, wanted: Collection[int]) -> tuple[LastStep, ...]:
    """The last steps of ranks that ended early, the earliest first."""
    alike: dict[tuple[int, tuple[Frame, ...]], list[int]] = {}
    for one in job.ranks:
        if one.rank in wanted:
            last = _last(one.syncs)
            alike.setdefault((last.step, last.call_site), []).append(one.rank)
    found = [
        LastStep(tuple(ranks), step, own_frame(site), _loop(run, site))
        for (step, site), ranks in alike.items()
    ]
    return tuple(sorted(found, key=lambda one: (one.step, one.ranks)))


def _loop(run: Run, site: Sequence[Frame]) -> SourceLine | None:
    """The innermost loop of the program around a call, in the function or in those that call it."""
    for frame in site:
        number = run.loop(frame.file, frame.line)
        if number:
            return SourceLine(frame.file, number, frame.function)
    return None


def _last(syncs: Sequence[SyncRecord]) -> SyncRecord:
    """The last sync that ended a step, else the last that ran something."""
    ran = [sync for sync in syncs if sync.outcome != "empty"]
    return next((sync for sync in reversed(ran) if sync.ends_step), ran[-1])
