"""Ranks that have nothing more to run while others wait for them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from xlagraph.message import SourceLine
from xlagraph.ranks.model import Reason
from xlagraph.runs.context import own_frame

if TYPE_CHECKING:
    from collections.abc import Sequence

    from xlagraph.ranks.model import Matching
    from xlagraph.ranks.plans import Job
    from xlagraph.run.reader import Run
    from xlagraph.run.records import Frame, SyncRecord


@dataclass(frozen=True, slots=True)
class LastStep:
    """Where ranks ended that others wait for."""

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


def last_steps(run: Run, job: Job, matching: Matching) -> tuple[LastStep, ...]:
    """The last steps of the ranks that are waited for and have ended, the earliest first."""
    if matching.reason is not Reason.ENDED:
        return ()
    standing = {rank for wait in matching.waits for rank in wait.ranks}
    wanted = {rank for wait in matching.waits if wait.is_root for rank in wait.missing} - standing
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
