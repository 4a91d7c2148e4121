"""Which sort of step each graph of a run is: a micro-batch, an update, an evaluation.

What it updates, takes in and gives out (`traits`) tells that, and what runs behind it.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass, replace
from enum import Enum
from typing import TYPE_CHECKING

from xlagraph.runs.graphs.nearest import opcodes_of
from xlagraph.runs.graphs.traits import input_names, names_from, traits_of
from xlagraph.runs.graphs.weights import (
    gradients_of,
    own_weights,
    taken_gradients,
    weights_of,
)
from xlagraph.runs.steps.order import followers

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from xlagraph.runs.compare import Comparison
    from xlagraph.runs.graphs.captured import CapturedGraph
    from xlagraph.runs.graphs.traits import Names, Traits, Weight
    from xlagraph.runs.steps.order import Turn
    from xlagraph.tensors import Tensor

MOST = 0.5
"""An evaluation reads so much of what a training step reads at least."""

PASSED_ON = frozenset({"parameter", "tuple"})
"""A graph of these computes nothing: copies that a program makes as it sets up."""


class Part(str, Enum):
    """What a step is to a training."""

    __str__ = str.__str__

    UPDATE = "update"
    MICRO_BATCH = "micro-batch"
    """The first whose gradients are kept for a later update."""
    ACCUMULATE = "accumulate"
    """Its gradients are added to those that are kept."""
    EVALUATION = "evaluation"


@dataclass(frozen=True, slots=True)
class Sort:
    """One sort of step: graphs of the same sort are variants of each other."""

    part: Part
    trained: frozenset[Weight] = frozenset()
    """The parameters that an update gives new values."""
    place: object = None
    """Where an evaluation runs."""
    own: frozenset[Tensor] = frozenset()
    """What an evaluation takes in that one of several trainings alone has: an adapter."""


class Sorts:
    """The sort of each graph, and what tells it."""

    def __init__(
        self,
        graphs: Sequence[CapturedGraph],
        comparisons: Sequence[Comparison],
        turns: Mapping[str, Sequence[Turn]],
    ):
        """Looks at all graphs, what each was compared with, and the steps of each process."""
        self._graphs = graphs
        self._numbers = {graph.record.digest: k for k, graph in enumerate(graphs)}
        self._followers = {
            file: followers(turn.graph for turn in steps) for file, steps in turns.items()
        }
        self._before: defaultdict[tuple[str, str], set[str]] = defaultdict(set)
        for file, followed in self._followers.items():
            for graph, later in followed.items():
                for one in later:
                    self._before[file, one].add(graph)
        self._cut = {
            file: {s.step for s in syncs if s.kind == "value" and s.outcome == "compile"}
            for file, syncs in {g.process.file: g.process.syncs for g in graphs}.items()
        }
        self.traits = _all_traits(graphs, comparisons)
        self.trainings = [
            _shapes(trained)
            for trained in dict.fromkeys(traits.trained for traits in self.traits)
            if trained
        ]
        self.own = own_weights(graphs)
        self.sorts = [self._sort(k) for k in range(len(graphs))]

    def is_cut(self, number: int) -> bool:
        """Whether values were read before its step ended, for the first time."""
        graph = self._graphs[number]
        return graph.step in self._cut[graph.process.file]

    def _sort(self, number: int) -> Sort | None:
        graph, traits = self._graphs[number], self.traits[number]
        if graph.sync is None or not graph.sync.ends_step:
            return None
        if traits.trained:
            return Sort(Part.UPDATE, traits.trained)
        if traits.others_updated:
            return None
        if traits.gradients:
            return Sort(Part.ACCUMULATE) if traits.sums_gradients else None
        if self._is_kept(number):
            return Sort(Part.MICRO_BATCH)
        if gradients_of(graph):  # of one element, which the traits leave out
            return self._of_small_gradients(number)
        if self._is_forward_only(number) and not self.is_cut(number):
            own = self.own & weights_of(graph).read
            return Sort(Part.EVALUATION, place=(graph.sync.entry, graph.sync.call_site), own=own)
        return None

    def _is_kept(self, number: int) -> bool:
        """Whether a step behind it takes in gradients of the shapes that it gives out."""
        gives = self.traits[number].gives
        taken = [self.traits[k].gradients for k in self._behind(number)]
        return any(shapes and shapes <= gives for shapes in taken)

    def _of_small_gradients(self, number: int) -> Sort | None:
        """The sort of a step that gives out gradients by name and updates nothing."""
        if taken_gradients(self._graphs[number]):
            return Sort(Part.ACCUMULATE)
        is_kept = any(taken_gradients(self._graphs[k]) for k in self._behind(number))
        return Sort(Part.MICRO_BATCH) if is_kept else None

    def _is_forward_only(self, number: int) -> bool:
        """Whether it reads what a training reads, gives no gradients, and is no part of a step."""
        traits, trainings = self.traits[number], self.trainings
        opcodes = opcodes_of(self._graphs[number].sketch.histogram())
        if not trainings or opcodes.keys() <= PASSED_ON:
            return False
        if any(traits.gives & shapes for shapes in trainings):
            return False
        reads = (traits.reads & shapes for shapes in trainings)
        is_of_model = any(
            shared.total() >= MOST * shapes.total()
            for shared, shapes in zip(reads, trainings, strict=True)
        )
        return is_of_model and not (traits.gives and self._is_always_completed(number))

    def _is_always_completed(self, number: int) -> bool:
        """Whether one graph runs behind it each time, and behind nothing else: the step's rest.

        That updates something or gives gradients; what gathers the results of an evaluation, in a
        sync of its own, does neither.
        """
        behind = self._behind(number)
        graph = self._graphs[number]
        before = [self._before[graph.process.file, self._graphs[k].record.digest] for k in behind]
        return before == [{graph.record.digest}] and any(map(self._trains, behind))

    def _trains(self, number: int) -> bool:
        """Whether it updates something, or gives back what has the shape of a trained weight."""
        traits = self.traits[number]
        if traits.trained or traits.others_updated:
            return True
        return any(traits.gives & shapes for shapes in self.trainings)

    def _behind(self, number: int) -> set[int]:
        """The graphs known to have run in the step after it, in its process."""
        file, digest = self._graphs[number].process.file, self._graphs[number].record.digest
        found = self._followers[file].get(digest, set())
        return {self._numbers[one] for one in found if one in self._numbers}


def _all_traits(graphs: Sequence[CapturedGraph], comparisons: Sequence[Comparison]) -> list[Traits]:
    """The traits of each graph; an input without a name has that of its partner.

    The names of a graph are dropped when no later one is compared with it any more.
    """
    last = {one.number: k for k, one in enumerate(comparisons) if one.number is not None}
    names: dict[int, Names] = {}
    known: dict[frozenset[Weight], frozenset[Weight]] = {}
    found = []
    for k, (graph, one) in enumerate(zip(graphs, comparisons, strict=True)):
        theirs: dict[int, Tensor] = {}
        if one.number is not None and one.outcome is not None:
            theirs = names_from(one.outcome.partners, names[one.number])
            if last[one.number] == k:
                del names[one.number]
        interface, context = graph.sketch.interface, graph.context()
        own = {**theirs, **input_names(interface, context)}
        traits = traits_of(interface, context, own)
        trained = known.setdefault(traits.trained, traits.trained)
        found.append(replace(traits, trained=trained))
        if k in last:
            names[k] = own
    return found


def _shapes(trained: frozenset[Weight]) -> Counter[str]:
    return Counter(shape for _, shape in trained)
