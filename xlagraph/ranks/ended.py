"""Ranks that have nothing more to run while others wait for them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from xlagraph.ranks.model import Reason
from xlagraph.runs.context import own_frame

if TYPE_CHECKING:
    from collections.abc import Sequence

    from xlagraph.message import SourceLine
    from xlagraph.ranks.model import Matching
    from xlagraph.ranks.plans import Job
    from xlagraph.run.records import SyncRecord


@dataclass(frozen=True, slots=True)
class LastStep:
    """Where ranks ended that others wait for."""

    ranks: tuple[int, ...]
    step: int
    line: SourceLine | None
    """The program's line at which that step ended."""


def last_steps(job: Job, matching: Matching) -> tuple[LastStep, ...]:
    """The last steps of the ranks that are waited for and have ended, the earliest first."""
    if matching.reason is not Reason.ENDED:
        return ()
    standing = {rank for wait in matching.waits for rank in wait.ranks}
    wanted = {rank for wait in matching.waits if wait.is_root for rank in wait.missing} - standing
    alike: dict[tuple[int, SourceLine | None], list[int]] = {}
    for one in job.ranks:
        if one.rank in wanted:
            last = _last(one.syncs)
            alike.setdefault((last.step, own_frame(last.call_site)), []).append(one.rank)
    found = [LastStep(tuple(ranks), step, line) for (step, line), ranks in alike.items()]
    return tuple(sorted(found, key=lambda one: (one.step, one.ranks)))


def _last(syncs: Sequence[SyncRecord]) -> SyncRecord:
    """The last sync that ended a step, else the last that ran something."""
    ran = [sync for sync in syncs if sync.outcome != "empty"]
    return next((sync for sync in reversed(ran) if sync.ends_step), ran[-1])
