"""Why a whole run compiled as often as it did."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from functools import cached_property
from typing import TYPE_CHECKING

from xlagraph.cause.verdict import NOWHERE
from xlagraph.message import EMPTY, join, say, words
from xlagraph.run.records import EXCEPTION
from xlagraph.runs.kinds import BY_DESIGN, UNEXPLAINED, UNLIKE_GRAPH
from xlagraph.runs.steps.spent import together

if TYPE_CHECKING:
    from collections.abc import Iterable

    from xlagraph.cause.kinds import Kind
    from xlagraph.cause.model import Cause, Context, Explanation
    from xlagraph.cause.verdict import Place, Verdict
    from xlagraph.message import Message, SourceLine
    from xlagraph.run.reader import Run
    from xlagraph.runs.pairs.explained import Pairs
    from xlagraph.runs.pairs.outcome import Outcome
    from xlagraph.runs.steps.spent import Spent
    from xlagraph.tensors import Holder


class Meant(str, Enum):
    """How a change comes that is made on purpose."""

    __str__ = str.__str__

    NOT = ""
    PHASE = "phase"
    """Once, and it stays."""
    RHYTHM = "rhythm"
    """Again and again in a fixed order, all graphs having run in the first steps; or every n-th."""
    CHOICE = "choice"
    """One of two pieces in each step, in no order; both ran early, and nothing was new since."""
    SIZES = "sizes"
    """One size of an input among few, each of which comes again."""
    STAGES = "stages"
    """The size of an input in one stage of the program, which does not come back."""
    ODD = "odd"
    """A shorter batch that comes again between full ones."""
    EARLY = "early"
    """One of few graphs that came early; none came in the longer part of the run since."""
    SELDOM = "seldom"
    """Once or twice, beside a cause of many compiles."""
    SETTLED = "settled"
    """With it a phase of the program settled; why it is another graph is not known."""


@dataclass(frozen=True, eq=False)
class GraphNode:
    """One distinct module of a run and how it came about."""

    digest: str
    letter: str
    """``A``, ``B``, ... in the order of steps, over all ranks."""
    rank: int
    """The one that tells of it (`xlagraph.runs.steps.leading`)."""
    step: int
    """Step of the sync that compiled it first, as `SyncRecord` counts them, on this rank."""
    call_site: SourceLine | None
    """The program's line of that sync."""
    sync_kind: str
    """``step``, ``value``, ...: what kind of sync that was."""
    spent: Spent
    """All compiles of this module, over all processes."""
    compiles: int
    hits: int
    """Cache hits known to have run it."""
    unnamed_hits: int
    """Hits at its places of which it is not known which graph they ran: perhaps this one."""
    instructions: int
    waits: bool
    """Tensors waited in reduce-scatter buckets as it was synced."""
    nearest: str
    """Digest of the earlier module it was compared with, ``""`` for the first of its kind."""
    why_nearest: str
    explanation: Outcome | None
    """Compared with `nearest`, in short; None for the first module of a call site. Its causes name
    no instructions: `RunExplanation.outcome` does."""
    held: tuple[tuple[Holder, SourceLine | None], ...]
    """Places in lists and the like that hold its live tensors, and where those were made."""
    part: Message
    """What its steps are to the training: ``update``, ``evaluation``; empty if not known."""
    by_design: bool
    """The first of its sort of step, which has a regular place among the others."""
    begins_reading: bool
    """A value was read, in a step after the first, where none had been read before that step."""
    warm_up: bool
    """No problem."""
    meant: Meant
    """How the change comes that makes it, if that is made on purpose and so is no problem."""
    another_part: bool
    """The first at its place, and later than the first step of the training."""
    is_small: bool = False
    """No problem only because it is small beside the steps, and no such graph is new any more."""

    @property
    def hits_text(self) -> str:
        """The hits for a table: ``3+`` where there may have been more."""
        return f"{self.hits}{'+' if self.unnamed_hits else ''}"


@dataclass(frozen=True, eq=False)
class CauseGroup:
    """Compiles with one reason, over all graphs of the run."""

    kind: Kind
    title: Message
    cause: Cause | None
    """The representative; None for modules that no cause explains."""
    further: tuple[Cause, ...]
    """What else is beyond warm-up in these modules, each kind and line once; that of most graphs
    first, but for the order of outputs."""
    graphs: tuple[str, ...]
    """Digests of the modules that this reason accounts for."""
    compiles: int
    spent: Spent
    expected: bool
    proved: bool
    compared: Message = EMPTY
    """The outputs that the representative's proof compares; empty for all."""
    shown: str = ""
    """Digest of the graph whose explanation the representative is from; ``""`` for none."""
    meant: Meant = Meant.NOT
    """How the change comes, where it is made on purpose and so expected."""
    steps: tuple[int, ...] = ()
    """In which the graphs ran first, ascending."""
    place: Place = NOWHERE
    """Where the program's line is that all this goes back to."""
    frequent: tuple[Cause, ...] = ()
    """Those of `further` that are more than an exception among the graphs, but for `second`."""
    second: tuple[Cause, ...] = ()
    """The first of `further`: what is to be mended too, as it stays when the first is mended."""
    alike: tuple[SourceLine, ...] = ()
    """Further lines at which the number of the cause is baked in, or the same is done."""
    own_numbers: bool = False
    """Whether the same is done at such lines with numbers of their own."""
    follows: tuple[Message, ...] = ()
    """Of graphs that differ in something else, which follows from this: what, and why."""
    read: SourceLine | None = None
    """The line that reads the number of which a size is made, where that is another one."""
    mend: tuple[Message, ...] = ()
    """What to change, whole and in short, where there is no cause and its kind says too little."""

    @property
    def is_by_design(self) -> bool:
        """Expected, and no warm-up: steps of several sorts, or a change made on purpose."""
        return self.expected and (self.kind is BY_DESIGN or self.meant is not Meant.NOT)

    @property
    def is_unknown(self) -> bool:
        """Nothing is known of why these graphs are others."""
        return self.cause is None and self.kind in (UNEXPLAINED, UNLIKE_GRAPH)

    @property
    def in_short(self) -> Message:
        """What happened in at most ten words, without a full stop."""
        return self.cause.in_short if self.cause else say(self.kind.short or self.kind.title)

    @property
    def effect(self) -> Message:
        """What it does to the training beside the time; empty where nothing is known."""
        return self.cause.effect if self.cause else EMPTY

    @property
    def elsewhere(self) -> tuple[SourceLine, ...]:
        """The further lines that are to be mended likewise."""
        own = self.place.line
        return tuple(one for one in self.alike if not own or one[:2] != own[:2])

    @property
    def same_number(self) -> Message:
        """At which further lines the number is to be mended; empty for none."""
        found, own = self.elsewhere, self.place.line
        if not found:
            return EMPTY
        if own and all(one.scope == own.scope for one in found):
            lines = say(
                "lines " if len(found) > 1 else "line ",
                join((str(one.line) for one in found), 6),
            )
        else:
            lines = join(found, 3)
        what = "The same changes at " if self.own_numbers else "The number moves alike at "
        return say(what, lines, ": mend these likewise.")

    @property
    def fix(self) -> Message:
        """What to change."""
        if self.cause:
            return self.cause.fix
        return self.mend[0] if self.mend else say(self.kind.fix)

    @property
    def fix_in_short(self) -> Message:
        """What to change in at most twelve words."""
        if self.cause:
            return self.cause.fix_in_short
        return self.mend[-1] if self.mend else say(self.kind.short_fix or self.kind.fix)


OFTEN = 3
"""Compiles of one reason from which on it goes on, as far as one can tell."""
SELDOM_WEIGHT = 0.25
NEARLY = 0.9
"""Of the seconds of a problem, from which on another one costs nearly as much."""


def ranked(groups: Iterable[CauseGroup]) -> tuple[CauseGroup, ...]:
    """Problems before what is by design, that before warm-up, and each by what it costs.

    Of proved problems that cost nearly the same, the one with the most compiles comes first. What
    no cause explains comes behind what goes on and has one, whatever it costs.
    """
    ordered = sorted(groups, key=_by_cost)
    told = [one for one in ordered if not one.expected]
    named = [one for one in told if not one.is_unknown and one.compiles >= OFTEN]
    problems = _by_compiles(named) + _by_compiles([one for one in told if one not in named])
    return (*problems, *(one for one in ordered if one.expected))


def _by_compiles(ordered: Iterable[CauseGroup]) -> list[CauseGroup]:
    """Problems by what they cost, and proved ones that cost nearly the same by their compiles."""
    rest = list(ordered)
    problems: list[CauseGroup] = []
    while rest:
        least = _weighed(rest[0]) * NEARLY
        near = [one for one in rest[1:] if one.proved and _weighed(one) >= least]
        problems.append(max(rest[0], *near, key=lambda one: one.compiles) if near else rest[0])
        rest.remove(problems[-1])
    return problems


def _by_cost(group: CauseGroup) -> tuple[bool, bool, float, str]:
    is_warm_up = group.expected and not group.is_by_design
    return (group.expected, is_warm_up, -_weighed(group), words(group.title))


def _weighed(group: CauseGroup) -> float:
    """Its seconds; those of a problem that came once or twice count for less.

    What comes again will go on.
    """
    weight = 1 if group.expected or group.compiles >= OFTEN else SELDOM_WEIGHT
    return group.spent.wall_seconds * weight


@dataclass(frozen=True, eq=False)
class RunExplanation:
    """The verdict over a run, its graphs, and the reasons ranked by what they cost (`ranked`)."""

    run: Run
    verdict: Verdict
    graphs: tuple[GraphNode, ...]
    groups: tuple[CauseGroup, ...]
    """Problems first, by what they cost; behind them what is by design, and then warm-up."""
    steps: int
    compiles: int
    """Modules that were compiled: a sync may compile several."""
    spent: Spent
    unseen: int
    """Compiles whose module is not in the run folder, so that nothing can be said of them."""
    first_step: int
    """The first step of the training loop; steps before it set things up."""
    stable_after: int | None
    """The step after which nothing compiled any more; None if the last step did."""
    alternating: tuple[str, ...]
    alternating_since: int
    """Letters of graphs that take turns although each is compiled only once."""
    unnamed_hits: int
    """Cache hits of which it is not known which graph they ran."""
    pairs: Pairs
    """What was compared with what, whole."""

    def outcome(self, node: GraphNode) -> Outcome:
        """What came of comparing a graph with its nearest one, with the instructions cited.

        Raises:
            KeyError: it was not compared.
        """
        return self.pairs.outcome((self._numbers[node.nearest], self._numbers[node.digest]))

    def explain(
        self, before: GraphNode, after: GraphNode
    ) -> tuple[Explanation, tuple[Context, Context]]:
        """Two graphs compared, once more if they were: with both modules, and their contexts.

        Raises:
            InputError: a module is not readable HLO.
            RunError: a module is damaged.
        """
        return self.pairs.explain((self._numbers[before.digest], self._numbers[after.digest]))

    @cached_property
    def _numbers(self) -> dict[str, int]:
        return {node.digest: k for k, node in enumerate(self.graphs)}

    @property
    def problems(self) -> tuple[CauseGroup, ...]:
        """The reasons that are no warm-up."""
        return tuple(group for group in self.groups if not group.expected)

    @property
    def lost(self) -> Spent:
        """What the compiles beyond warm-up took."""
        return together([group.spent for group in self.problems])

    @property
    def warm_up(self) -> Spent:
        """What warm-up took."""
        groups = (group for group in self.groups if group.expected and not group.is_by_design)
        return together(group.spent for group in groups)

    @property
    def by_design(self) -> Spent:
        """What graphs took that the program has on purpose."""
        return together(group.spent for group in self.groups if group.is_by_design)

    @property
    def has_problem(self) -> bool:
        """Something compiled that is not warm-up, or that cannot be looked at.

        Nor is a program without a problem that has ended by an exception.
        """
        return bool(self.unseen or self.problems or failures(self.run))


def failures(run: Run) -> list[str]:
    """The exceptions that ended processes of a run."""
    return [note.detail for p in run.processes for note in p.notes if note.what == EXCEPTION]
