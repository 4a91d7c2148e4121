"""What compiling costs a job: ranks wait for each other, so the slowest counts."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from statistics import median
from typing import TYPE_CHECKING

from xlagraph.runs.steps.spent import Spent

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from xlagraph.ranks.plans import Job, RankRecords

OUTLIER = 2.0
"""A compile is an outlier if it took so many times the median of all ranks."""
MIN_SECONDS = 0.5
"""And at least so much longer."""


@dataclass(frozen=True, slots=True)
class Straggler:
    """A step in which some ranks compiled, and the others had nothing to compile."""

    step: int
    ranks: tuple[int, ...]
    seconds: float
    """Of the slowest."""


@dataclass(frozen=True, slots=True)
class Outlier:
    """A rank that took longer over a module than the others."""

    rank: int
    digest: str
    seconds: float
    usual: float
    """The median over all ranks."""


@dataclass(frozen=True, slots=True)
class Missed:
    """A module that some ranks compiled, and others had in torch_xla's cache on disk."""

    digest: str
    compiled: tuple[int, ...]
    loaded: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class JobCost:
    """What compiling cost all ranks together."""

    seconds: float
    """In which at least one rank compiled, and the others waited for it in the end."""
    spent: float
    """The compile seconds of all ranks added up."""
    by_clock: bool
    """`seconds` is the union over one host's clock; else each step counts with its slowest rank."""
    stragglers: tuple[Straggler, ...]
    """The slowest first."""
    outliers: tuple[Outlier, ...]
    missed: tuple[Missed, ...]


def job_cost(job: Job) -> JobCost:
    """The cost of a job, from its records alone; linear in syncs."""
    by_clock = len({one.process.record.host for one in job.ranks}) == 1
    spent = Spent.of(sync for one in job.ranks for sync in one.syncs)
    return JobCost(
        seconds=spent.wall_seconds if by_clock else sum(_slowest(job).values()),
        spent=spent.rank_seconds,
        by_clock=by_clock,
        stragglers=_stragglers(job),
        outliers=_outliers(job),
        missed=_missed(job),
    )


def _slowest(job: Job) -> dict[int, float]:
    """By step the compile seconds of the rank with the most."""
    found: dict[int, float] = {}
    for one in job.ranks:
        for step, seconds in _by_step(one).items():
            found[step] = max(found.get(step, 0.0), seconds)
    return found


def _by_step(one: RankRecords) -> dict[int, float]:
    found: defaultdict[int, float] = defaultdict(float)
    for sync in one.syncs:
        if sync.outcome == "compile":
            found[sync.step] += sync.compile_seconds
    return found


def _stragglers(job: Job) -> tuple[Straggler, ...]:
    by_rank = {one.rank: _by_step(one) for one in job.ranks}
    steps = {step for found in by_rank.values() for step in found}
    found = []
    for step in steps:
        late = {rank: mine[step] for rank, mine in by_rank.items() if step in mine}
        if len(late) < len(by_rank) and any(late.values()):
            found.append(Straggler(step, tuple(sorted(late)), max(late.values())))
    return tuple(sorted(found, key=lambda one: (-one.seconds, one.step)))


def _outliers(job: Job) -> tuple[Outlier, ...]:
    times: defaultdict[str, dict[int, float]] = defaultdict(dict)
    for one in job.ranks:
        for sync in one.syncs:
            if sync.outcome == "compile" and len(sync.graphs) == 1:
                times[sync.graphs[0]].setdefault(one.rank, sync.compile_seconds)
    found = []
    for digest, mine in times.items():
        usual = median(mine.values())
        found += [
            Outlier(rank, digest, seconds, usual)
            for rank, seconds in mine.items()
            if len(mine) > 2 and seconds > max(OUTLIER * usual, usual + MIN_SECONDS)
        ]
    return tuple(sorted(found, key=lambda one: (-one.seconds, one.rank)))


def _missed(job: Job) -> tuple[Missed, ...]:
    """Modules that some ranks ran without ever compiling them, and others compiled."""
    compiled, ran = _who(job, ("compile",)), _who(job, ("compile", "hit"))
    found = []
    for digest, mine in sorted(compiled.items()):
        loaded = ran[digest] - mine
        if loaded:
            found.append(Missed(digest, tuple(sorted(mine)), tuple(sorted(loaded))))
    return tuple(found)


def _who(job: Job, outcomes: Sequence[str]) -> dict[str, set[int]]:
    found: defaultdict[str, set[int]] = defaultdict(set)
    for one in job.ranks:
        for digest in _graphs(one, outcomes):
            found[digest].add(one.rank)
    return found


def _graphs(one: RankRecords, outcomes: Sequence[str]) -> Iterable[str]:
    return (digest for sync in one.syncs if sync.outcome in outcomes for digest in sync.graphs)
