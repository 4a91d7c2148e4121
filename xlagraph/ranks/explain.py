"""From a run to what is to be said about its ranks."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from xlagraph.cause.verdict import Place
from xlagraph.ranks.cost import job_cost
from xlagraph.ranks.divergence import differences
from xlagraph.ranks.ended import early_ranks, last_steps
from xlagraph.ranks.index import MIN_RANKS, own_numbers
from xlagraph.ranks.kinds import (
    COLLECTIVE_HANG,
    COLLECTIVE_MISMATCH,
    RANK_DIVERGENCE,
    RANK_NUMBER,
)
from xlagraph.ranks.match import match
from xlagraph.ranks.model import Outcome
from xlagraph.ranks.plans import job_of
from xlagraph.ranks.tasks import (
    DifferingLines,
    DifferingTask,
    Stand,
    StandTask,
    compare_ranks,
    stand,
)
from xlagraph.ranks.verdict import ranks_verdict, verdict_line
from xlagraph.ranks.words import ASIDE
from xlagraph.runs.graphs.context import own_frame
from xlagraph.runs.pairs.cache import unpacked
from xlagraph.runs.pairs.tasks import modules
from xlagraph.runs.pairs.work import Means, Work, outcomes

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from xlagraph.cause.kinds import Kind
    from xlagraph.cause.verdict import Verdict
    from xlagraph.collectives.program import Program
    from xlagraph.message import SourceLine
    from xlagraph.ranks.cost import JobCost
    from xlagraph.ranks.divergence import Difference
    from xlagraph.ranks.ended import LastStep
    from xlagraph.ranks.index import Numbers
    from xlagraph.ranks.model import Matching, Wait
    from xlagraph.ranks.plans import Job
    from xlagraph.runs.compare import Pair
    from xlagraph.runs.graphs.captured import CapturedGraph
    from xlagraph.runs.model import RunExplanation
    from xlagraph.runs.pairs.outcome import Outcome as Compared
    from xlagraph.runs.pairs.tasks import GraphPlace

MAX_PAIRS = 12
"""Pairs of graphs that are explained; of more differences it is said that they are there."""


@dataclass(frozen=True, slots=True)
class Stop:
    """Ranks at a collective that does not come together, as it is shown."""

    wait: Wait
    letter: str
    stand: Stand


@dataclass(frozen=True, slots=True, eq=False)
class Divergence:
    """Ranks that ran other graphs than most."""

    difference: Difference
    ran: tuple[str, ...]
    usual: tuple[str, ...]
    """Letters of the graphs."""
    explanation: Compared | None
    """What most ran against what these ranks ran; None where there is no pair, or too many."""
    line: SourceLine | None
    """Where these ranks alone ran something."""


@dataclass(frozen=True, slots=True)
class OwnNumbers:
    """Ranks whose graphs differ only by the rank's own number."""

    ranks: tuple[int, ...]
    letters: tuple[str, ...]
    numbers: Numbers
    lines: tuple[SourceLine, ...]


@dataclass(frozen=True, slots=True, eq=False)
class RanksExplanation:
    """What is found between the ranks of a run."""

    job: Job
    matching: Matching
    stops: tuple[Stop, ...]
    ended: tuple[LastStep, ...]
    """The ranks that others wait for and that have nothing more to run; where ranks do not stop,
    those that ran fewer steps."""
    divergences: tuple[Divergence, ...]
    own_numbers: tuple[OwnNumbers, ...]
    cost: JobCost
    verdict: Verdict | None
    """Of what is wrong between ranks; None where nothing is."""
    place: Place
    """Where the verdict's line is."""

    @property
    def has_problem(self) -> bool:
        """Ranks hang or do not match, for sure or maybe, or ran different graphs."""
        return bool(self.aside or self.divergences)

    @property
    def aside(self) -> str:
        """A heading for what recompiles, where it is not what stops the job; else empty."""
        return ASIDE.get(self.matching.outcome, "")

    @property
    def kinds(self) -> tuple[Kind, ...]:
        """The kinds of what was found, the worst first."""
        stops = {
            Outcome.HANG: (COLLECTIVE_HANG,),
            Outcome.MISMATCH: (COLLECTIVE_MISMATCH,),
        }.get(self.matching.outcome, ())
        divergence = (RANK_DIVERGENCE,) if self.divergences else ()
        return (*stops, *divergence, *((RANK_NUMBER,) if self.own_numbers else ()))

    @property
    def is_certain(self) -> bool:
        """Whether what is said of collectives is certain."""
        return self.matching.certain


def explain_ranks(explained: RunExplanation, means: Means | None = None) -> RanksExplanation | None:
    """Compares the ranks of an explained run; None where there is but one.

    Raises:
        InputError: a stored module is not readable HLO.
        RunError: a stored module is damaged.
        WorkerError: the workers asked for cannot do it.
    """
    job = job_of(explained.run)
    if job is None:
        return None
    plans = [one.plan for one in job.ranks]
    library = _Library(explained, means or Means())
    ran = {one.digest for plan in plans for one in plan.executed if one.digest}
    matching = match(plans, library.programs(ran, job.world), job.world)
    try:
        stops = library.stops(matching.waits)
        numbers, rest = library.own_numbers(differences(plans))
        divergences = library.divergences(rest)
    finally:
        modules.clear()
    early = early_ranks(matching, (one.difference for one in divergences))
    ended = last_steps(explained.run, job, early)
    line = verdict_line(matching, stops, ended, divergences)
    around = explained.run.source(line.file, line.line) if line else None
    return RanksExplanation(
        job=job,
        matching=matching,
        stops=stops,
        ended=ended,
        divergences=divergences,
        own_numbers=numbers,
        cost=job_cost(job),
        verdict=ranks_verdict(matching, stops, ended, divergences, dict(around or ())),
        place=Place(line, source=around or ()),
    )


class _Library:
    """The graphs of a run by digest, and what workers find out about them."""

    def __init__(self, explained: RunExplanation, means: Means):
        self._pairs = explained.pairs
        self._means = means
        self._numbers = {one.record.digest: k for k, one in enumerate(explained.pairs.graphs)}

    def programs(self, digests: Iterable[str], world: int) -> dict[str, Program]:
        """The collectives of graphs, read as they were sketched."""
        found = {digest: self._graph(digest).sketch.program for digest in digests}
        return {digest: program.among(world) for digest, program in found.items() if program}

    def stops(self, waits: Sequence[Wait]) -> tuple[Stop, ...]:
        """Waits with lines and names."""
        pairs, numbers = self._pairs, self._numbers
        keys = [f"stand-{pairs.name(numbers[one.digest])}-{one.item.instruction}" for one in waits]
        wanted = dict(zip(keys, waits, strict=True))
        work = Work(
            "looking at collectives",
            stand,
            lambda key: StandTask(
                pairs.side(numbers[wanted[key].digest]), wanted[key].item.instruction, key
            ),
            lambda key: self._graph(wanted[key].digest).record.bytes,
            lambda key, data: unpacked(data, key, Stand),
        )
        found = dict(work.done(pairs.address, list(wanted), self._means))
        return tuple(
            Stop(one, self._letter(one.digest), found[key])
            for key, one in zip(keys, waits, strict=True)
        )

    def own_numbers(
        self, found: Sequence[Difference]
    ) -> tuple[tuple[OwnNumbers, ...], Sequence[Difference]]:
        """Differences that are but each rank's own number, put together, and the others."""
        alone = [one for one in found if len(one.ranks) == len(one.ran) == len(one.usual) == 1]
        by_steps: dict[tuple[int, ...], list[Difference]] = {}
        for one in alone:
            by_steps.setdefault(one.steps, []).append(one)
        numbers: list[OwnNumbers] = []
        taken: set[int] = set()
        for many in by_steps.values():
            usual = {(one.usual, one.others) for one in many}
            ((most, others),) = usual if len(usual) == 1 else [((), ())]
            if len(others) != 1 or len(many) + 1 < MIN_RANKS:
                continue
            digests = {one.ranks[0]: one.ran[0] for one in many} | {others[0]: most[0]}
            together = self._numbers_of(digests)
            if together:
                numbers.append(together)
                taken.update(id(difference) for difference in many)
        return tuple(numbers), [one for one in found if id(one) not in taken]

    def _numbers_of(self, digests: Mapping[int, str]) -> OwnNumbers | None:
        lowest, *others = sorted(digests)
        first = self._place(digests[lowest])
        wanted = {f"ranks-{first.digest}-{digests[rank]}": rank for rank in others}
        work = Work(
            "comparing ranks",
            compare_ranks,
            lambda key: DifferingTask(first, self._place(digests[wanted[key]]), key),
            lambda key: self._graph(digests[wanted[key]]).record.bytes,
            lambda key, data: unpacked(data, key, DifferingLines),
        )
        compared: dict[int, DifferingLines] = {}
        for key, one in work.done(self._pairs.address, list(wanted), self._means):
            if one.differing is None:
                return None
            compared[wanted[key]] = one
        found = {rank: one for rank in others if (one := compared[rank].differing)}
        numbers = own_numbers(lowest, found)
        if numbers is None:
            return None
        most = max(others, key=lambda rank: (len(found[rank].places), -rank))
        letters = tuple(self._letter(digests[rank]) for rank in (lowest, *others))
        return OwnNumbers((lowest, *others), letters, numbers, compared[most].lines)

    def divergences(self, found: Sequence[Difference]) -> tuple[Divergence, ...]:
        """Differences, each with the cause of one graph against the other."""
        pairs = [self._telling(one) for one in found]
        wanted = list(dict.fromkeys(pair for pair in pairs if pair))[:MAX_PAIRS]
        explained = outcomes(self._pairs, wanted, self._means)
        shown = []
        for one, pair in zip(found, pairs, strict=True):
            outcome = explained.get(pair) if pair else None
            if outcome and outcome.same and len(one.ran) == len(one.usual):
                continue  # names and numbering
            new = [digest for digest in one.ran if digest not in one.usual]
            shown.append(
                Divergence(
                    difference=one,
                    ran=tuple(map(self._letter, one.ran)),
                    usual=tuple(map(self._letter, one.usual)),
                    explanation=outcome,
                    line=self._line(new or one.ran or one.usual),
                )
            )
        return tuple(shown)

    def _telling(self, one: Difference) -> Pair | None:
        """The graphs whose difference tells why ranks differ; None where there are no two."""
        new = [digest for digest in one.ran if digest not in one.usual]
        if not (new and one.usual):
            return None
        mine = one.ran[-1] if one.ran[-1] in new else new[0]
        return self._numbers[one.usual[-1]], self._numbers[mine]

    def _graph(self, digest: str) -> CapturedGraph:
        return self._pairs.graphs[self._numbers[digest]]

    def _place(self, digest: str) -> GraphPlace:
        return self._pairs.side(self._numbers[digest]).graph

    def _letter(self, digest: str) -> str:
        return self._graph(digest).letter

    def _line(self, digests: Sequence[str]) -> SourceLine | None:
        """The call site of the first of these graphs."""
        sync = self._graph(digests[0]).sync
        return own_frame(sync.call_site) if sync else None
