"""Sizes that each hold for a long stretch of steps and do not come back: stages of a program.

Progressive resizing, longer sequences in the second half: each size compiles once for each graph of
its place, and then it is gone. What its steps show tells it from an odd batch and from growth:

* the graphs of a stage differ from those of the stages before in sizes of inputs, proved, and not
  only in the first dimension: how many examples there are can be had without a compile; what is
  switched on purpose may come with them, such as a further loss;
* there are few stages; each lasts, and the last of them as long as any other;
* no step is known to run a graph of another stage, and some are known to run those of their own.
"""

from __future__ import annotations

from itertools import groupby, pairwise
from typing import TYPE_CHECKING

from xlagraph.rules.shapes.sizes import INPUT_SHAPE
from xlagraph.runs.by_design.few_sizes import brings_size
from xlagraph.runs.graphs.input_sizes import is_of_batch, sizes_apart

if TYPE_CHECKING:
    from collections.abc import Sequence

    from xlagraph.runs.compare import Comparison
    from xlagraph.runs.graphs.captured import CapturedGraph
    from xlagraph.runs.graphs.input_sizes import Size

LASTING = 8
"""A stage lasts so many steps at least."""
FEW = 3
"""More changes than these are no stages."""
KNOWN = 2
"""So many hits of each stage are known to be of its graphs."""


def is_size_of_stage(
    number: int,
    graphs: Sequence[CapturedGraph],
    comparisons: Sequence[Comparison],
    turns: Sequence[frozenset[int]],
) -> bool:
    """Whether a graph has the size of a stage of its place that is not the first.

    `turns`: what each step at the place may have run, by the numbers of graphs.
    """
    here = list(dict.fromkeys(graph for turn in turns if len(turn) == 1 for graph in turn))
    sizes = {graph: _size(graph, graphs, comparisons, here) for graph in here}
    if not sizes.get(number):
        return False
    stages = [list(members) for size, members in groupby(filter(sizes.get, here), sizes.get)]
    if len(stages) > FEW or len({sizes[members[0]] for members in stages}) < len(stages):
        return False
    begins = [0, *(turns.index(frozenset({members[0]})) for members in stages), len(turns)]
    lengths = [end - begin for begin, end in pairwise(begins)]
    first = {_root(members, sizes, comparisons) for stage in stages for members in stage}
    return (
        min(lengths) >= LASTING
        and lengths[-1] == max(lengths)
        and all(
            _is_whole(turns[begin:end], k, [first, *map(set, stages)])
            for k, (begin, end) in enumerate(pairwise(begins))
        )
    )


def _is_whole(turns: Sequence[frozenset[int]], number: int, stages: Sequence[set[int]]) -> bool:
    """Whether the steps of a stage ran its graphs, as far as known, and none of another one."""
    own = stages[number]
    others = set[int]().union(*(stage for stage in stages if stage is not own))
    known = [turn for turn in turns if turn and turn <= own]
    is_alone = not any(turn and turn <= others for turn in turns)
    return is_alone and len(known) >= len(set(known)) + KNOWN


def _size(
    number: int,
    graphs: Sequence[CapturedGraph],
    comparisons: Sequence[Comparison],
    here: Sequence[int],
) -> frozenset[Size]:
    """The sizes that a graph brings; empty where it is another one for something else."""
    other = comparisons[number].number
    is_sized = brings_size(number, graphs, comparisons, here)
    if other is None or not (is_sized or _is_switched(comparisons[number], here)):
        return frozenset()
    found = sizes_apart([graphs[other], graphs[number]])[1]
    return frozenset() if is_of_batch(found) else found


def _is_switched(comparison: Comparison, here: Sequence[int]) -> bool:
    """Whether a size comes with what is switched on purpose, such as a further loss."""
    outcome = comparison.outcome
    if outcome is None or not outcome.proved or comparison.number not in here:
        return False
    others = [c for c in outcome.causes if c.kind is not INPUT_SHAPE and not c.expected]
    return len(others) < len(outcome.causes) and all(c.kind.may_be_meant for c in others)


def _root(number: int, sizes: dict[int, frozenset[Size]], comparisons: Sequence[Comparison]) -> int:
    """The graph of the first stage that a graph is a variant of."""
    other = comparisons[number].number
    while other is not None and sizes.get(other):
        number, other = other, comparisons[other].number
    return number if other is None else other
