"""Small graphs that run beside the steps of a training, and settle: a log's sums, gathered results.

Trainers reset a running loss, gather what an evaluation has computed, or read a number behind the
end of a step. Each of these compiles in a moment and then hits; nothing is wrong with it. So does
what is left of an evaluation, of any size, where `torch_xla.step` runs it before a step begins; and
what a metric computes of its own counts as it is read, which takes in no weights: no step is cut.
"""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING

from xlagraph.runs.graphs.places import is_first
from xlagraph.runs.steps.history import BEGINS
from xlagraph.runs.steps.turns import call_place

if TYPE_CHECKING:
    from collections.abc import Sequence

    from xlagraph.runs.by_design.design import Design
    from xlagraph.runs.graphs.captured import CapturedGraph
    from xlagraph.runs.steps.history import History
    from xlagraph.runs.steps.turns import CallPlace

SETTLED = 0.5
"""None is new in this last part of the run's steps, or of those of its place; else they come."""


def small_graphs(
    graphs: Sequence[CapturedGraph], design: Design, history: History
) -> frozenset[int]:
    """The numbers of the small graphs of a run at places where no new one comes any more.

    What comes with the first step of a part of the program is part of that.
    """
    begun = {
        (graph.process.file, graph.step)
        for k, graph in enumerate(graphs)
        if not design.is_small(k) and is_first(graph, history)
    }
    small = [k for k in range(len(graphs)) if _is_beside(k, graphs, design)]
    beginning = {k for k in small if (graphs[k].process.file, graphs[k].step) in begun}
    places: defaultdict[CallPlace, list[int]] = defaultdict(list)
    for k in small:
        sync = graphs[k].sync
        if sync and k not in beginning:
            places[call_place(graphs[k].process, sync)].append(k)
    settled = [here for here in places.values() if _has_settled(graphs[here[-1]], history)]
    return frozenset(beginning.union(*settled))


def _is_beside(number: int, graphs: Sequence[CapturedGraph], design: Design) -> bool:
    sync = graphs[number].sync
    if sync is None:
        return design.is_small(number)
    is_read_apart = sync.kind == "value" and design.takes_no_weights(number)
    return is_read_apart or sync.entry == BEGINS or design.is_small(number)


def _has_settled(last: CapturedGraph, history: History) -> bool:
    """Whether the last new graph of a place came early in the run, or in the place's own steps."""
    turns, sync, early = history.turns, last.sync, 1 - SETTLED
    return last.step < early * history.steps or (
        sync is not None
        and turns.number(last.process, sync) < early * turns.total(last.process, sync)
    )
