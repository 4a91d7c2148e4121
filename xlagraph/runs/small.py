"""Small graphs that run beside the steps of a training, and settle: a log's sums, gathered results.

Trainers reset a running loss, gather what an evaluation has computed, or read a number behind the
end of a step. Each of these compiles in a moment and then hits; nothing is wrong with it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from xlagraph.runs.captured import CapturedGraph
    from xlagraph.runs.design import Design

SMALL = 0.01
"""A graph is small if it has this part of the instructions of the largest update."""
SETTLED = 0.5
"""None is new in this last part of the run's steps; else they keep coming."""


def small_graphs(graphs: Sequence[CapturedGraph], design: Design, steps: int) -> frozenset[int]:
    """The numbers of the small graphs of a run, if no new one comes any more.

    `steps`: how many the run had.
    """
    updates = [graph.sketch.instructions for k, graph in enumerate(graphs) if design.is_update(k)]
    bound = SMALL * max(updates, default=0)
    small = [k for k, graph in enumerate(graphs) if graph.sketch.instructions <= bound]
    latest = max((graphs[k].step for k in small), default=0)
    return frozenset(small) if latest < (1 - SETTLED) * steps else frozenset()
