"""The step before a phase, in which what the phase updates is made as copies.

An average of the weights begins as a copy of them (torch's `AveragedModel` does in its first
update), and later steps move it. The first of these steps gives back the copies and has a graph of
its own, which compiles once; from the next one on they are inputs that each step updates.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import TYPE_CHECKING

from xlagraph.cause.kinds import Section
from xlagraph.rules.inputs.live_tensors import LIVE_TENSOR
from xlagraph.rules.training.optimizer_state import NEWLY_UPDATED
from xlagraph.runs.graphs.sketch import without_layout
from xlagraph.runs.model import Meant

if TYPE_CHECKING:
    from collections.abc import Sequence

    from xlagraph.runs.by_design.design import Design
    from xlagraph.runs.compare import Comparison
    from xlagraph.runs.graphs.captured import CapturedGraph
    from xlagraph.runs.model import GraphNode
    from xlagraph.runs.pairs.outcome import Outcome


def with_first_copies(
    nodes: Sequence[GraphNode],
    graphs: Sequence[CapturedGraph],
    comparisons: Sequence[Comparison],
    design: Design,
) -> list[GraphNode]:
    """The graphs, with those as warm-up that ran once, and made what the phase behind updates."""
    found = list(nodes)
    for k, node in enumerate(nodes):
        first, outcome = comparisons[k].number, comparisons[k].outcome
        if first is None or outcome is None or node.meant is not Meant.PHASE:
            continue
        other = comparisons[first].number
        if (
            other is not None
            and (not nodes[first].warm_up or nodes[first].meant is Meant.SETTLED)
            and any(cause.kind is NEWLY_UPDATED for cause in outcome.causes)
            and _gives_more(comparisons[first].outcome)
            and _ran_before(first, k, design)
            and _makes(graphs[first], graphs[other], graphs[k])
        ):
            found[first] = replace(nodes[first], warm_up=True, meant=Meant.NOT)
    return found


def _gives_more(outcome: Outcome | None) -> bool:
    """Whether a graph gives back more tensors than another, and no more is known to differ."""
    return (
        outcome is not None
        and outcome.proved
        and any(cause.kind is LIVE_TENSOR for cause in outcome.causes)
        and all(
            cause.expected or cause.kind.section in (Section.LIVE, Section.HEADER)
            for cause in outcome.causes
        )
    )


def _ran_before(first: int, number: int, design: Design) -> bool:
    """Whether a graph ran in one step at its place, and another one in the next."""
    turns = design.turns_of_sort(number).turns
    if turns.count(first) != 1:
        return False
    place = turns.index(first)
    return turns[place + 1 : place + 2] == (number,)


def _makes(first: CapturedGraph, other: CapturedGraph, graph: CapturedGraph) -> bool:
    """Whether all that a graph updates and the first does not is among what this gives more."""
    new = _updated(graph) - _updated(first)
    return bool(new) and new <= _given(first) - _given(other)


def _updated(graph: CapturedGraph) -> Counter[str]:
    interface = graph.sketch.interface
    return Counter(without_layout(interface.inputs[k][1]) for k, _ in interface.updates)


def _given(graph: CapturedGraph) -> Counter[str]:
    return Counter(shape for shape, _ in graph.sketch.interface.outputs)
