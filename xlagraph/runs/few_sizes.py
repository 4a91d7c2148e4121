"""Sizes of inputs that are few, came early and come again: what bucketing makes on purpose.

The advice against sizes that change is to have few of them; a program that follows it compiles once
for each. What its steps show tells it from one whose sizes are an accident:

* its graphs differ in sizes of inputs, proved (state that the first step makes may come along);
* there are few, and each is known to have run again after the last of them had compiled;
* nothing compiled at their place after the first quarter of the steps there;
* none of them is the rule, as full batches are between odd ones;
* they do not count up, as a sequence that gets one more each time does, request after request.
"""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import replace
from functools import reduce
from itertools import pairwise
from operator import and_
from typing import TYPE_CHECKING

from xlagraph.cause.sources import at
from xlagraph.message import count, join, say
from xlagraph.rules.sizes import INPUT_SHAPE
from xlagraph.runs.sketch import without_layout

if TYPE_CHECKING:
    from collections.abc import Sequence

    from xlagraph.cause.model import Cause
    from xlagraph.runs.captured import CapturedGraph
    from xlagraph.runs.compare import Comparison
    from xlagraph.runs.design import Design
    from xlagraph.runs.model import GraphNode
    from xlagraph.runs.outcome import Cited, Outcome

MOST = 8
"""So many sizes are few."""
AFTER = 3
"""Steps without a compile for each one up to the last compile."""
RULE = 2 / 3
"""A size with this part of the steps is the rule, and the others are exceptions: of three batches
the last one is odd."""
ROW = 3
"""So many sizes, each as much larger than the one before, count up."""


def is_one_of_few_sizes(
    number: int,
    graphs: Sequence[CapturedGraph],
    comparisons: Sequence[Comparison],
    design: Design,
) -> bool:
    """Whether a graph is that of one size among few, all of which came early and came again.

    The first graph at the place need not come again: its state may not have been there yet.
    """
    turns, seen = design.turns_of_sort(number)
    here = [graph for graph in seen if graph is not None]
    if len(here) > MOST + 1 or number not in here:
        return False
    begin = turns.index(here[-1]) + 1  # in order of appearance
    again = Counter(graph for graph in turns[begin:] if graph is not None)
    sizes = [graph for graph in here if graph in again or graph != turns[0]]
    return (
        1 < len(sizes) <= MOST
        and len(turns) - begin >= AFTER * begin
        and all(graph in again for graph in sizes)
        and max(again.values()) < RULE * again.total()
        and _brings_size(comparisons[number], here)
        and all(_changes_sizes_only(comparisons[graph], here) for graph in here[1:])
        and not _count_up([graphs[graph] for graph in sizes])
    )


def _brings_size(comparison: Comparison, here: Sequence[int]) -> bool:
    outcome = comparison.outcome
    is_size = outcome is not None and any(one.kind is INPUT_SHAPE for one in outcome.causes)
    return is_size and _changes_sizes_only(comparison, here)


def _changes_sizes_only(comparison: Comparison, here: Sequence[int]) -> bool:
    """Whether a graph is one that ran here before it but for a size, or for state."""
    outcome: Outcome | None = comparison.outcome
    return (
        outcome is not None
        and outcome.proved
        and comparison.number in here
        and all(cause.kind is INPUT_SHAPE or cause.expected for cause in outcome.causes)
    )


def _count_up(graphs: Sequence[CapturedGraph]) -> bool:
    """Whether what differs among their inputs is as much longer from each graph to the next."""
    inputs = [
        Counter(without_layout(shape) for _, shape in graph.sketch.interface.inputs)
        for graph in graphs
    ]
    alike = reduce(and_, inputs)
    lengths = [sum(map(_length, (own - alike).elements())) for own in inputs]
    steps = {later - earlier for earlier, later in pairwise(lengths)}
    return len(lengths) >= ROW and len(steps) == 1


def _length(shape: str) -> int:
    """The sizes of an array's dimensions, added up."""
    return sum(map(int, re.findall(r"\d+", shape.partition("[")[2])))


def as_few_sizes(cause: Cause, members: Sequence[GraphNode]) -> Cause:
    """The cause of a single graph, said as what it is over the run: the sizes that there are."""
    outcomes = [node.explanation for node in members if node.explanation]
    cited = (one for found in outcomes for one in (found.first_a, found.first_b))
    inputs = dict.fromkeys(filter(None, map(_input_shape, cited)))
    shapes = sorted(inputs, key=lambda shape: (_length(shape), shape))
    number = f"{len(shapes)} sizes" if len(shapes) > 1 else "several sizes"
    listed = say(" (", join(shapes, MOST), ")") if len(shapes) > 1 else say()
    graphs = count(len(members), "more graph")
    return replace(
        cause,
        title=say(
            f"an input comes in {number}",
            listed,
            at(cause.lines),
            f", in turn from the first steps on: {graphs}, each of which ran again",
        ),
        fix=say(
            "None needed if the sizes are a choice, such as length buckets: each compiles once. "
            "For one graph in all pad every batch to the largest."
        ),
        short=say(f"an input comes in {number}", listed),
        short_fix=say("Pad every batch to the largest size."),
    )


def _input_shape(cited: Cited | None) -> str:
    is_input = cited is not None and cited.opcode == "parameter"
    return without_layout(cited.shape) if cited and is_input else ""
