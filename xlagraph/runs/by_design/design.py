"""Steps of several sorts that a program runs by design: each has a graph of its own.

Micro-batches whose gradients are summed up, the update behind them, an evaluation, trainings of
different parameters in turn. What a graph does (`sorts`) and how graphs follow each other
(`order`) tell them from variants of one step.
"""

from __future__ import annotations

import re
from collections import Counter
from functools import cached_property
from itertools import dropwhile, groupby, pairwise
from typing import TYPE_CHECKING

from xlagraph.message import join, say
from xlagraph.rules.training.accumulated_gradient import ACCUMULATED_GRADIENT
from xlagraph.runs.by_design.settled import LASTING, stages_of
from xlagraph.runs.by_design.sorts import Part, Sorts
from xlagraph.runs.graphs.context import own_frame, step_at
from xlagraph.runs.graphs.nearest import opcodes_of
from xlagraph.runs.steps.cycle import cycle_of
from xlagraph.runs.steps.order import (
    Phase,
    PlaceTurns,
    begins_phases,
    comes_again,
    comes_in_phases,
    ends_phases,
    only_after_others,
    parts_of_phases,
    step_turns,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from xlagraph.message import Message, SourceLine
    from xlagraph.run.records import Frame
    from xlagraph.runs.by_design.settled import Stage
    from xlagraph.runs.by_design.sorts import Sort
    from xlagraph.runs.compare import Comparison
    from xlagraph.runs.graphs.captured import CapturedGraph
    from xlagraph.runs.pairs.outcome import Outcome
    from xlagraph.runs.steps.order import Turn

COMPUTES = frozenset({"convolution", "custom-call", "dot", "gather", "reduce"})
"""What an evaluation has and a copy of weights has not."""
ACTS = re.compile(r"roll|collect|explor|play|bootstrap|teacher|prefill|decode|serve", re.I)
"""Functions that read weights, and evaluate nothing, by their names."""
KNOWN = 0.5
"""The sort of so many of the steps of a place has to be known for their order to say something."""
SMALL = 0.01
"""A graph is small if it has this part of the instructions of the largest update."""


class Design:
    """What the graphs of a run are to its training, and which come first of their sort."""

    def __init__(
        self,
        graphs: Sequence[CapturedGraph],
        comparisons: Sequence[Comparison],
        first_step: int,
    ):
        """Looks at all graphs, in order of appearance, and what each was compared with.

        `first_step`: where the training begins.
        """
        self._graphs = graphs
        self._numbers = {graph.record.digest: k for k, graph in enumerate(graphs)}
        self._turns = {
            process.file: step_turns(process)
            for process in {graph.process.file: graph.process for graph in graphs}.values()
        }
        self._cycles = {
            file: cycle_of([turn for turn in turns if turn.step >= first_step])
            for file, turns in self._turns.items()
        }
        self._at: dict[tuple[object, ...], PlaceTurns] = {}
        self._stages: dict[tuple[object, ...], tuple[dict[str | None, int], list[Stage]]] = {}
        found = Sorts(graphs, comparisons, self._turns)
        self._is_cut = found.is_cut
        self._traits = found.traits
        self._own = found.own
        self._trainings = found.trainings
        self._sorts = found.sorts
        self._updates = {s.trained for s in self._sorts if s and s.part is Part.UPDATE}
        self._updated = Counter(weight for trained in self._updates for weight in trained)
        updates = (g.sketch.instructions for k, g in enumerate(graphs) if self.is_update(k))
        self._small = SMALL * max(updates, default=0)
        self._parts = {sort.part for sort in self._sorts if sort}
        self._firsts = {s: k for k, s in reversed(list(enumerate(self._sorts))) if s}
        self._like = _latest_alike(graphs, self._sorts)
        self._first = {k for k in range(len(graphs)) if self._begins(k)}

    def sort(self, number: int) -> Sort | None:
        """The sort of a graph, None where it cannot be told."""
        return self._sorts[number]

    def is_update(self, number: int) -> bool:
        """Whether the steps of a graph update parameters of the training."""
        sort = self._sorts[number]
        return sort is not None and sort.part is Part.UPDATE

    def is_small(self, number: int) -> bool:
        """Whether a graph has next to nothing of an update: a log's sum."""
        return self._graphs[number].sketch.instructions <= self._small

    def takes_no_weights(self, number: int) -> bool:
        """Whether a graph takes in nothing of a trained weight's shape, and updates nothing.

        What a metric computes of its counts is such, of a run whose training is known.
        """
        traits = self._traits[number]
        is_apart = not any(traits.reads & shapes for shapes in self._trainings)
        return bool(self._trainings) and is_apart and not traits.others_updated

    def like(self, number: int) -> int | None:
        """The last earlier graph of the same sort in the same process, if there is one."""
        return self._like.get(number)

    def counterpart(self, number: int) -> int | None:
        """What the first turn of a cycle ran in place of a graph that all later turns run."""
        graph = self._graphs[number]
        found = self._cycles[graph.process.file].counterpart(graph.record.digest)
        return self._numbers.get(found or "")

    def counterpart_in_stage(self, number: int) -> int | None:
        """The same of a stage of its place, whatever runs at others."""
        stage = self._stage(number)
        found = stage.cycle.counterpart(self._graphs[number].record.digest) if stage else None
        return self._numbers.get(found or "")

    def period(self, number: int) -> int:
        """The steps of the cycle in which its process goes round; 0 if it does not."""
        return self._cycles[self._graphs[number].process.file].period

    def is_in_cycle(self, number: int) -> bool:
        """Whether every turn of a cycle of several steps runs a graph, from the second turn on."""
        graph = self._graphs[number]
        cycle = self._cycles[graph.process.file]
        return cycle.period > 1 and cycle.has(graph.record.digest)

    def keeps_cycle(self, number: int) -> bool:
        """Whether a graph is in such a cycle, and what comes behind it does not mix its order."""
        return (
            self.is_in_cycle(number) and self._cycles[self._graphs[number].process.file].is_kept()
        )

    def turns_of_sort(self, number: int) -> PlaceTurns:
        """What ran at the place of a graph; steps of other parts of the training are left out.

        So is what is small beside updates.
        """
        graph, sort = self._graphs[number], self._sorts[number]
        site = graph.site
        part = sort.part if sort else None
        key = graph.process.file, site, part
        if key not in self._at:
            found = []
            for turn in self.turns_of(number):
                other = self._sort_of(turn)
                one = self._numbers.get(turn.graph or "")
                is_beside = part is Part.UPDATE and one is not None and self.is_small(one)
                is_of_part = not part or (not is_beside if other is None else part is other.part)
                if turn.site == site and is_of_part:
                    found.append(one)
            self._at[key] = PlaceTurns(tuple(found), tuple(dict.fromkeys(found)))
        return self._at[key]

    def ran_at_place(self, number: int) -> list[frozenset[int]]:
        """What each step at the place of a graph may have run; empty for one that is not known."""
        site = self._graphs[number].site
        return [
            frozenset(self._numbers[one] for one in turn.graphs if one in self._numbers)
            for turn in self.turns_of(number)
            if turn.site == site
        ]

    def settles(self, number: int) -> bool:
        """Whether a stage of its place settled with a graph, which cuts no step."""
        return self._stage(number) is not None and not self._is_cut(number)

    def successor(self, number: int) -> int | None:
        """What took the place of a graph that ran only in the first turn of its stage."""
        stage = self._stage(number)
        found = stage.cycle.successor(self._graphs[number].record.digest) if stage else None
        return self._numbers.get(found or "")

    def _stage(self, number: int) -> Stage | None:
        """The stage that settled with a graph: of its place, or of all places together.

        A place that never ran before such a stage is none that it changes.
        """
        site = self._graphs[number].site
        if stage := self._stage_at(number, site):
            return stage
        stage = self._stage_at(number, None)
        before = [*self.turns_of(number)][: stage.begin] if stage else []
        return stage if any(turn.site == site for turn in before) else None

    def _stage_at(self, number: int, site: tuple[Frame, ...] | None) -> Stage | None:
        graph = self._graphs[number]
        key = graph.process.file, site
        if key not in self._stages:
            here = [turn for turn in self.turns_of(number) if site in (None, turn.site)]
            firsts: dict[str | None, int] = {}
            for k, turn in enumerate(here):
                firsts.setdefault(turn.graph, k)
            self._stages[key] = firsts, stages_of(here)
        firsts, stages = self._stages[key]
        first = firsts.get(graph.record.digest)
        return next((one for one in stages if first is not None and one.has(first)), None)

    def begins_sort(self, number: int) -> bool:
        """Whether a graph is the first of a sort that has its place in the program's order."""
        return number in self._first

    def place_in_phase(self, other: int, number: int) -> Phase | None:
        """What a graph is to the phases of a program whose parts run in turn; None if nothing.

        In a cycle over several places one graph begins each phase at its place, and others follow
        there; or it does in each stage. `other` is what the graph is a variant of.
        """
        digests = self._digest(other), self._digest(number)
        if self.is_in_cycle(number):
            begins = [begins_phases(self.turns_of(k), self._digest(k)) for k in (other, number)]
            if begins[1] == {True}:
                return Phase.BEGIN
            if begins == [{True}, {False}]:
                return Phase.REST
        begin, rest = parts_of_phases(self.turns_of(number), self._graphs[number].site)
        if digests[0] in rest and digests[1] in begin:
            return Phase.BEGIN
        return Phase.REST if digests[0] in begin and digests[1] in rest else None

    def follows_another_part(self, number: int) -> bool:
        """Whether a graph ran only behind steps of another place, as far as that is known."""
        return only_after_others(self.turns_of(number), self._digest(number))

    def adds_kept_gradients(self, number: int, outcome: Outcome) -> bool:
        """Whether an update adds to gradients that micro-batches keep for it, by design.

        The first update of all may have had none: a loader that is ahead, or one batch at first.
        """
        sort, causes = self.sort(number), outcome.causes
        is_update = sort is not None and sort.part is Part.UPDATE
        accumulates = {Part.MICRO_BATCH, Part.ACCUMULATE} <= self._parts
        kinds = {cause.kind for cause in causes if not cause.expected}
        return is_update and accumulates and outcome.proved and kinds == {ACCUMULATED_GRADIENT}

    def is_elsewhere(self, number: int, line: SourceLine) -> bool:
        """Whether a line is of a function from which steps of other places alone are reached."""
        own = {(frame.file, frame.function) for frame in self._graphs[number].site}
        sites = {turn.site for turn in self.turns_of(number)}
        others = {(frame.file, frame.function) for site in sites for frame in site}
        return (line.file, line.function) in others - own

    def ends_evaluations(self, other: int, number: int) -> bool:
        """Whether a graph ends each round of an evaluation, a sampler, whose others are `other`."""
        if any(s is None or s.part is not Part.EVALUATION for s in map(self.sort, (other, number))):
            return False
        ends = [ends_phases(self.turns_of(k), self._digest(k)) for k in (other, number)]
        return ends == [{False}, {True}]

    def _digest(self, number: int) -> str:
        return self._graphs[number].record.digest

    def brings_state(self, other: int, number: int) -> bool:
        """Whether a graph takes in what `other` does and optimizer state that this has made.

        Numbers aside: state comes with some of its own, and one that is 1 is no input. What
        `other` alone takes in to give copies of it, as of weights, is made but once.
        """
        before, now = self._traits[other], self._traits[number]
        rest, rest_before = (_turned(one.reads - one.states) for one in (now, before))
        if not now.states or rest == rest_before:
            return bool(now.states)
        is_one_training = bool(now.trained) and now.trained == before.trained
        copied = _turned(self._given(other) - self._given(number))
        return is_one_training and rest <= rest_before and rest_before - rest <= copied

    def _given(self, number: int) -> Counter[str]:
        return Counter(shape for shape, _ in self._graphs[number].sketch.interface.outputs)

    def follows_first(self, other: int, number: int) -> bool:
        """Whether `other` was the first of its sort and ran but once, and `number` came next.

        Where updates of other shapes came between, they take state in too.
        """
        sort, sync = self._sorts[number], self._graphs[number].sync
        if sort is None or self._sorts[other] != sort:
            return False
        graphs = [
            turn.graph
            for turn in self.turns_of(number)
            if self._sort_of(turn) == sort
            or (not turn.graph and sync and turn.site == sync.call_site)
        ]
        first, digest = (self._graphs[k].record.digest for k in (other, number))
        graphs = [*dropwhile(lambda graph: graph is None, graphs)]  # hits of what came before it
        between = graphs[1 : graphs.index(digest)] if digest in graphs else [None]
        return (
            graphs[:1] == [first]
            and graphs.count(first) == 1
            and all(one and self._traits[self._numbers[one]].states for one in between)
        )

    def label(self, number: int) -> Message:
        """What the steps of a graph are called; empty where that cannot be told."""
        sort = self._sorts[number]
        if sort is None:
            return say()
        if sort.part is Part.EVALUATION:
            return self._of_forward(number) if self._computes(number) else say()
        if sort.part is not Part.UPDATE:
            return say(sort.part.value)
        if len(self._updates) > 1:
            own = sorted((w for w in sort.trained if self._updated[w] == 1), key=str)
            if len(own) < len(sort.trained):  # others update them, too
                line = own_frame(self._graphs[number].site)
                return say("update at ", line) if line else say("update")
            names = Counter(tensor for tensor, _ in self._updated)
            shown = (say(t, f" ({shape})") if names[t] > 1 else say(t) for t, shape in own)
            return say("update of ", join(shown, 1))
        accumulates = self._parts & {Part.MICRO_BATCH, Part.ACCUMULATE}
        return say("update" if accumulates else "training")

    def _of_forward(self, number: int) -> Message:
        """What only reads weights: an evaluation, if no function has the name of something else."""
        line = own_frame(self._graphs[number].site)
        is_named = line is not None and ACTS.search(line.function)
        return step_at(line) if is_named else say(Part.EVALUATION.value)

    def _computes(self, number: int) -> bool:
        """Whether there is a product in a graph, or a sum: what copies weights has none."""
        opcodes = opcodes_of(self._graphs[number].sketch.histogram())
        return not COMPUTES.isdisjoint(opcodes)

    def is_first(self, number: int) -> bool:
        """Whether a graph is the first of its sort."""
        sort = self._sorts[number]
        return sort is not None and self._firsts[sort] == number

    def turns_of(self, number: int) -> tuple[Turn, ...]:
        """All steps of the process of a graph that ran something."""
        return self._turns[self._graphs[number].process.file]

    def _begins(self, number: int) -> bool:
        """Whether nothing of its sort ran before, others did, and the order is that of the sort."""
        sort = self._sorts[number]
        if sort is None or self._firsts[sort] != number:
            return False
        earlier = {other.part for other, first in self._firsts.items() if first < number}
        if not earlier:
            return False
        match sort.part:
            case Part.EVALUATION:
                return self._has_phases(number)
            case Part.UPDATE if earlier == {Part.EVALUATION}:
                return True
            case Part.UPDATE if Part.UPDATE in earlier:
                return self._takes_turns(number) or self._comes_in_stages(number)
            case _:
                return self._is_accumulation(number)

    def _has_phases(self, number: int) -> bool:
        """Whether an evaluation has a place of its own, or phases of its own at a shared one."""
        sync = self._graphs[number].sync
        here = [turn for turn in self.turns_of(number) if sync and turn.site == sync.call_site]
        sorts = [sort for sort in map(self._sort_of, here) if sort]
        is_known = len(sorts) >= KNOWN * len(here)
        return is_known and comes_in_phases([sort == self._sorts[number] for sort in sorts])

    def _takes_turns(self, number: int) -> bool:
        """Whether updates of different parameters come again in one order.

        Where one updates all that another does and more, a layer was frozen or left out.
        """
        if not self._updates_are_apart:
            return False
        names = {sort: str(k) for k, sort in enumerate(self._sorts)}
        sorts = [self._sort_of(turn) for turn in self.turns_of(number)]
        parts = [
            names[sort] if sort else None
            for sort in sorts
            if sort is None or sort.part is Part.UPDATE
        ]
        return comes_again(parts)

    def _comes_in_stages(self, number: int) -> bool:
        """Whether it begins a stage of parameters of its own, as all before it did at first."""
        sorts = (self._sort_of(turn) for turn in self.turns_of(number))
        lasted: dict[Sort | None, int] = {}
        for sort, run in groupby(s for s in sorts if s is None or s.part is Part.UPDATE):
            lasted.setdefault(sort, len(list(run)))
        if not self._own or self._sorts[number] not in lasted:
            return False
        before = list(lasted)[: list(lasted).index(self._sorts[number]) + 1]
        return all(sort and lasted[sort] >= LASTING for sort in before)

    @cached_property
    def _updates_are_apart(self) -> bool:
        """Whether no update has all that another one has and more, nor what has no name."""
        numbers = [k for k, sort in enumerate(self._sorts) if sort and sort.part is Part.UPDATE]
        sets = self._updates
        return not (
            any(self._traits[k].others_updated for k in numbers)
            or any(one < other for one in sets for other in sets)
        )

    def _is_accumulation(self, number: int) -> bool:
        """Whether gradients are summed up from micro-batch to micro-batch up to an update.

        A micro-batch begins after an update, and each adds to what the ones before it gave. Where
        gradients are zeroed in place only the very first is one that begins.
        """
        sorts = [self._sort_of(turn) for turn in self.turns_of(number)]
        sorts = [sort for sort in sorts if sort is None or sort.part is not Part.EVALUATION]
        parts = [sort.part if sort else None for sort in sorts]
        pairs = set(pairwise(parts))
        first, added, update = Part.MICRO_BATCH, Part.ACCUMULATE, Part.UPDATE
        if not {first, added} & set(parts) or {(first, first), (added, first)} & pairs:
            return False
        return (update, added) not in pairs or parts.count(first) <= 1

    def _sort_of(self, turn: Turn) -> Sort | None:
        number = self._numbers.get(turn.graph or "")
        return None if number is None else self._sorts[number]


def _latest_alike(graphs: Sequence[CapturedGraph], sorts: Sequence[Sort | None]) -> dict[int, int]:
    """For each graph the last one before it of its sort, in its process."""
    found: dict[int, int] = {}
    latest: dict[tuple[str, Sort], int] = {}
    for k, (graph, sort) in enumerate(zip(graphs, sorts, strict=True)):
        if sort is None:
            continue
        if (graph.process.file, sort) in latest:
            found[k] = latest[graph.process.file, sort]
        latest[graph.process.file, sort] = k
    return found


def _turned(shapes: Counter[str]) -> Counter[str]:
    """Shapes with their sizes in order and without those of 1, as views of gradients have them.

    Numbers are left out.
    """
    found = Counter[str]()
    for shape, times in shapes.items():
        if shape.endswith("[]"):
            continue
        dtype, _, sizes = shape.rstrip("]").partition("[")
        found[f"{dtype}[{','.join(sorted(size for size in sizes.split(',') if size != '1'))}]"] += (
            times
        )
    return found
