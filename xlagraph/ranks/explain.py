"""From a run to what is to be said about its ranks."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from xlagraph.canon.labels import bare_shape
from xlagraph.cause.sources import where
from xlagraph.cause.verdict import Place
from xlagraph.explain import explain_modules
from xlagraph.facts.buckets import value_reach
from xlagraph.hlo import read_stored
from xlagraph.patterns import re
from xlagraph.ranks.collectives import Program, program_of
from xlagraph.ranks.cost import job_cost
from xlagraph.ranks.divergence import differences
from xlagraph.ranks.groups import Grid
from xlagraph.ranks.index import own_numbers
from xlagraph.ranks.kinds import (
    COLLECTIVE_HANG,
    COLLECTIVE_MISMATCH,
    RANK_DIVERGENCE,
    RANK_NUMBER,
)
from xlagraph.ranks.match import match
from xlagraph.ranks.model import Outcome
from xlagraph.ranks.plans import job_of
from xlagraph.ranks.words import ranks_verdict, verdict_line
from xlagraph.runs.context import named_context, own_frame
from xlagraph.runs.explain import graph_order

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from xlagraph.cause.kinds import Kind
    from xlagraph.cause.model import Context, Explanation
    from xlagraph.cause.verdict import Verdict
    from xlagraph.graph import Module
    from xlagraph.message import SourceLine
    from xlagraph.ranks.cost import JobCost
    from xlagraph.ranks.divergence import Difference
    from xlagraph.ranks.index import Numbers
    from xlagraph.ranks.model import Matching, Wait
    from xlagraph.ranks.plans import Job
    from xlagraph.run.reader import Process, Run
    from xlagraph.run.records import GraphRecord
    from xlagraph.tensors import Tensor

MAX_PAIRS = 12
"""Pairs of graphs that are explained; of more differences it is said that they are there."""
MAX_TENSORS = 6
"""Named outputs that a collective may reach and still be called by them."""
_CONCERNS_OTHERS = re.compile(
    r"\b(?:all-(?:gather|reduce|to-all)|reduce-scatter|collective-|send|recv)|"
    r"num_partitions=|sharding=|custom_call_has_side_effect=true"
)


@dataclass(frozen=True, slots=True)
class Stop:
    """Ranks at a collective that does not come together, as it is shown."""

    wait: Wait
    letter: str
    shapes: tuple[str, ...]
    """Of what goes in."""
    tensors: tuple[Tensor, ...]
    """What it is for, as far as that is known."""
    lines: tuple[SourceLine, ...]


@dataclass(frozen=True, slots=True, eq=False)
class Divergence:
    """Ranks that ran other graphs than most."""

    difference: Difference
    ran: tuple[str, ...]
    usual: tuple[str, ...]
    """Letters of the graphs."""
    explanation: Explanation | None
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
        stops = self.matching.outcome in (Outcome.HANG, Outcome.MISMATCH)
        return stops or bool(self.divergences)

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


def explain_ranks(run: Run) -> RanksExplanation | None:
    """Compares the ranks of a run; None where there is but one.

    Raises:
        InputError: a stored module is not readable HLO.
        RunError: a stored module is damaged.
    """
    job = job_of(run)
    if job is None:
        return None
    plans = [one.plan for one in job.ranks]
    library = _Library(run)
    ran = {one.digest for plan in plans for one in plan.executed if one.digest}
    programs = {digest: library.program(digest, job.world) for digest in sorted(ran)}
    matching = match(plans, programs, job.world)
    stops = tuple(library.stop(wait) for wait in matching.waits)
    found = differences(plans)
    numbers, rest = library.own_numbers(found)
    divergences = tuple(library.divergences(rest))
    cost = job_cost(job)
    line = verdict_line(matching, stops, divergences)
    around = run.source(line.file, line.line) if line else None
    return RanksExplanation(
        job=job,
        matching=matching,
        stops=stops,
        divergences=divergences,
        own_numbers=numbers,
        cost=cost,
        verdict=ranks_verdict(matching, stops, divergences),
        place=Place(line, source=around or ()),
    )


class _Library:
    """The modules of a run, read when they are asked for."""

    def __init__(self, run: Run):
        self.run = run
        order = graph_order(run)
        self.letters = {record.digest: letter for letter, record, _ in order}
        self._records: dict[str, tuple[GraphRecord, Process]] = {
            record.digest: (record, process) for _, record, process in order
        }
        self._pairs: dict[tuple[str, str], Explanation] = {}

    def module(self, digest: str) -> Module:
        """A stored module."""
        return read_stored(*self.run.graph(digest), f"{self.run.name}:{self.letters[digest]}")

    def program(self, digest: str, world: int) -> Program:
        """Its collectives; a module whose text has none is not read."""
        stored = self.run.graph(digest)
        if stored.text is not None and not _CONCERNS_OTHERS.search(stored.text):
            return Program((), Grid(1, 1), ordered=True, partitioned_later=False)
        return program_of(read_stored(*stored, f"{self.run.name}:{self.letters[digest]}"), world)

    def context(self, digest: str, module: Module) -> Context:
        """What the capture knows of a module."""
        record, process = self._records[digest]
        return named_context(process, record, module)

    def stop(self, wait: Wait) -> Stop:
        """A wait with lines and names."""
        module = self.module(wait.digest)
        i = wait.item.instruction
        operands = module.operands[i]
        kept = operands[:-1] if len(operands) > 1 and _is_token(module, operands[-1]) else operands
        return Stop(
            wait=wait,
            letter=self.letters[wait.digest],
            shapes=tuple(bare_shape(module, one) for one in kept),
            tensors=_tensors(module, self.context(wait.digest, module), i, len(kept)),
            lines=where(module, [i]),
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
            if len(others) != 1:
                continue
            digests = {one.ranks[0]: one.ran[0] for one in many} | {others[0]: most[0]}
            together = self._numbers(digests)
            if together:
                numbers.append(together)
                taken.update(id(difference) for difference in many)
        return tuple(numbers), [one for one in found if id(one) not in taken]

    def _numbers(self, digests: Mapping[int, str]) -> OwnNumbers | None:
        ranks = tuple(sorted(digests))
        numbers = own_numbers((rank, self.module(digests[rank])) for rank in ranks)
        if numbers is None:
            return None
        lines = where(self.module(digests[ranks[0]]), numbers.instructions)
        letters = tuple(self.letters[digests[rank]] for rank in ranks)
        return OwnNumbers(ranks, letters, numbers, lines)

    def divergences(self, found: Sequence[Difference]) -> Iterable[Divergence]:
        """Differences, each with the cause of one graph against the other."""
        for one in found:
            new = [digest for digest in one.ran if digest not in one.usual]
            explanation = None
            if new and one.usual:
                mine = one.ran[-1] if one.ran[-1] in new else new[0]
                explanation = self._explained(one.usual[-1], mine)
                if explanation and explanation.diff.same and len(one.ran) == len(one.usual):
                    continue  # names and numbering
            yield Divergence(
                difference=one,
                ran=tuple(self.letters[digest] for digest in one.ran),
                usual=tuple(self.letters[digest] for digest in one.usual),
                explanation=explanation,
                line=self._line(new or one.ran or one.usual),
            )

    def _explained(self, usual: str, mine: str) -> Explanation | None:
        key = usual, mine
        if key not in self._pairs and len(self._pairs) < MAX_PAIRS:
            a, b = self.module(usual), self.module(mine)
            contexts = self.context(usual, a), self.context(mine, b)
            names = self.letters[usual], self.letters[mine]
            self._pairs[key] = explain_modules(a, b, *contexts, names)
        return self._pairs.get(key)

    def _line(self, digests: Sequence[str]) -> SourceLine | None:
        """The call site of the first of these graphs."""
        record, process = self._records[digests[0]]
        sync = process.sync_at(record.sync)
        return own_frame(sync.call_site) if sync else None


def _is_token(module: Module, i: int) -> bool:
    """Whether an operand is the scalar with which torch_xla orders collectives."""
    return bare_shape(module, i).endswith("[]")


def _tensors(module: Module, context: Context, i: int, kept: int) -> tuple[Tensor, ...]:
    """The outputs with names that a collective's own results reach, if they are few."""
    results = [
        user
        for user in module.users[i]
        if module.opcodes[user] != "get-tuple-element"
        or int(module.attributes[user].get("index") or 0) < kept
    ]
    reached = value_reach(module, results)
    named = [t for k, t in sorted(context.outputs.items()) if reached[module.outputs[k]]]
    return tuple(named) if len(named) <= MAX_TENSORS else ()
