"""Sizes of inputs that are few and come again: what bucketing makes on purpose.

The advice against sizes that change is to have few of them; a program that follows it compiles once
for each. What its steps show tells it from one whose sizes are an accident:

* its graphs differ in sizes of inputs, proved, and in sizes that Python computed from them (state
  that the first step makes may come along);
* there are few, and each has run again after the last of them had compiled; where it is not known
  which graph a hit ran, each may have, but the sizes must not go up from each new one to the next;
* no new one came any more, although at the pace until then several more would have; of powers of
  two fewer steps say so;
* none of them is known to be the rule, as full batches are between odd ones;
* they do not count up, as a sequence that gets one more each time does, request after request.

Where the program has stages, in which it trains something else or by another loss, the sizes come
again in each, with graphs of their own (`stage_at`): each stage is asked for itself.
"""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import replace
from functools import reduce
from itertools import groupby, pairwise
from operator import and_
from typing import TYPE_CHECKING

from xlagraph.cause.sources import at
from xlagraph.message import count, join, say
from xlagraph.rules.inputs.added_input import ADDED_INPUT
from xlagraph.rules.inputs.initial_state import INITIAL_STATE
from xlagraph.rules.numbers.shared_scalar import SHARED_SCALAR
from xlagraph.rules.shapes.sizes import INPUT_SHAPE, PYTHON_SIZE
from xlagraph.runs.graphs.input_sizes import is_of_batch, sizes_apart
from xlagraph.runs.graphs.nearest import opcodes_of
from xlagraph.runs.graphs.sketch import without_layout
from xlagraph.runs.steps.order import PlaceTurns

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from xlagraph.cause.model import Cause
    from xlagraph.runs.compare import Comparison
    from xlagraph.runs.graphs.captured import CapturedGraph
    from xlagraph.runs.graphs.sketch import Sketch
    from xlagraph.runs.model import GraphNode
    from xlagraph.runs.pairs.outcome import Cited, Outcome

MOST = 8
"""So many sizes are few."""
AGAIN = 3
"""So many steps for each size since the last one was new, and so many new sizes that would have
come in them at the pace until then: that none did is no accident (with a chance of 5 % at one pace
throughout)."""
RULE = 2 / 3
"""A size with this part of the steps is the rule, and the others are exceptions: of three batches
the last one is odd."""
FIXED = 0.8
"""The same where others come two in a row, which odd batches do not."""
BESIDE = 1 / 4
"""What has this part of a difference beside a size comes of it: an index, a mean of one element."""
ROW = 3
"""So many sizes, each as much larger than the one before, count up."""
LEAST = 4
"""The smallest power of two that is a bucket's."""
KNOWN = 2
"""So many hits of a stage at least are known to be of its graphs."""
STAGES = 4
"""More stretches than these, each with graphs of its own, are no stages."""
ODD = 2
"""The size of full batches, and that of the last one."""
SLIGHT = frozenset({INITIAL_STATE, SHARED_SCALAR})
"""What graphs of one size may differ in."""
CUTS = frozenset({"slice", "pad"})
"""What comes and goes with a size: the largest needs no part of a table, and no padding."""
SIZES = frozenset({INPUT_SHAPE, PYTHON_SIZE})
"""An input's size, and beside it those that Python computes from it."""


def is_one_of_few_sizes(
    number: int,
    graphs: Sequence[CapturedGraph],
    comparisons: Sequence[Comparison],
    ran: PlaceTurns,
) -> bool:
    """Whether a graph is that of one size among few, all of which came early and came again.

    The first graph at the place need not come again: its state may not have been there yet.
    `ran`: what ran there.
    """
    turns = without_state(stage_at(number, graphs, comparisons, ran).turns, comparisons)
    here = [graph for graph in dict.fromkeys(turns) if graph is not None]
    if len(here) > MOST + 1 or number not in here:
        return False
    begin = turns.index(here[-1]) + 1  # in order of appearance
    again = Counter(graph for graph in turns[begin:] if graph is not None)
    unnamed = len(turns) - begin - again.total()
    sizes = [graph for graph in here if graph in again or graph != turns[0] or unnamed]
    if not 1 < len(sizes) <= MOST:
        return False
    of_sizes = [graphs[graph] for graph in sizes]
    times = 1 if _are_powers(of_sizes) else AGAIN
    lengths = dict(zip(sizes, _lengths(of_sizes), strict=True))
    each = [lengths.get(graph) if graph is not None else None for graph in turns]
    return (
        has_settled(len(sizes), begin, len(turns) - begin, times)
        and _come_again(sizes, again, unnamed, each, times)
        and not has_rule(turns[begin:])
        and not _is_odd_batch(of_sizes, [again[one] for one in sizes], turns[begin:])
        and brings_size(number, graphs, comparisons, here)
        and all(
            changes_sizes_only(graph, graphs, comparisons, here)
            for graph in here[1 + _is_begun(turns) :]
            if graphs[graph].site == graphs[number].site  # else that of a warm-up
        )
        and not _count_up(list(lengths.values()), each)
    )


def without_state(
    turns: Sequence[int | None], comparisons: Sequence[Comparison]
) -> tuple[int | None, ...]:
    """What ran, a graph in the place of one that only makes what that one takes in, as a sum's 0.

    The first step of an epoch does so, in whatever size it comes. Nor is it another size that two
    Python numbers are equal in some step.
    """
    same: dict[int | None, int | None] = {}
    for k in dict.fromkeys(turns):
        comparison = comparisons[k] if k is not None else None
        other, outcome = (comparison.number, comparison.outcome) if comparison else (None, None)
        kinds = outcome.proved_kinds if outcome else frozenset()
        is_state = bool(kinds) and kinds <= SLIGHT
        same[k] = same[other] if is_state and other in same else k
    return tuple(same[k] for k in turns)


def stage_at(
    number: int,
    graphs: Sequence[CapturedGraph],
    comparisons: Sequence[Comparison],
    ran: PlaceTurns,
) -> PlaceTurns:
    """What ran in the stage of a graph: from the first of those that differ in sizes from it on.

    All that ran there, where graphs that differ in more are known to come back, or are many.
    """
    turns, seen = ran
    here = [graph for graph in seen if graph is not None]
    roots: dict[int, int] = {}
    for k in here:
        other = comparisons[k].number
        is_variant = other in roots and changes_sizes_only(k, graphs, comparisons, here)
        roots[k] = roots[other] if other is not None and is_variant else k
    ends = [(k, roots[turn]) for k, turn in enumerate(turns) if turn is not None]
    runs = [root for root, _ in groupby(root for _, root in ends)]
    if number not in roots or len(runs) > len({*runs}) or len(runs) > STAGES:
        return ran
    begins = [0, *(turns.index(root) for root in runs[1:]), len(turns)]
    stage = runs.index(roots[number])
    found = turns[begins[stage] : begins[stage + 1]]
    return PlaceTurns(found, tuple(dict.fromkeys(found)))


def begins_stage(
    number: int,
    graphs: Sequence[CapturedGraph],
    comparisons: Sequence[Comparison],
    ran: PlaceTurns,
) -> bool:
    """Whether a stage of several sizes, not the first, begins with a graph, and lasts.

    Some of its hits have to be known, so that the stage before is over.
    """
    turns = stage_at(number, graphs, comparisons, ran).turns
    known = [turn for turn in turns if turn is not None]
    sizes = {*known}
    is_other = len(turns) < len(ran.turns) and turns[0] == number != ran.turns[0]
    is_known = len(sizes) > 1 and len(known) >= len(sizes) + KNOWN
    return is_other and is_known and len(turns) >= AGAIN * len(sizes)


def _is_begun(turns: Sequence[int | None]) -> bool:
    """Whether the first step's graph never came again: the second has state that only it makes."""
    first, second = turns[:2]
    return first is not None and second is not None and turns.count(first) == 1


def _are_powers(graphs: Sequence[CapturedGraph]) -> bool:
    """Whether several sizes are powers of two, as buckets are and what happens to come is not."""
    found = {one.size for sizes in sizes_apart(graphs) for one in sizes}
    return len(found) >= ROW and all(n >= LEAST and n.bit_count() == 1 for n in found)


def has_settled(number: int, until: int, since: int, times: int = AGAIN) -> bool:
    """Whether nothing is new any more: so many came in the first steps, none in those since.

    `times`: how many steps there have to be since for each, and how many more sizes would have come
    at the pace until then.
    """
    return since >= times * number and (number - 1) * since >= times * (until - 1)


def _come_again(
    sizes: Sequence[int],
    again: Counter[int],
    unnamed: int,
    ran: Sequence[int | None],
    times: int,
) -> bool:
    """Whether each size has run again, or may have in one of the hits that have no name.

    What only ever got longer grows, but by powers of two. `ran`: the length of each step, None
    where it is not known.
    """
    missing = [size for size in sizes if size not in again]
    if not missing:
        return True
    known = [length for length in ran if length is not None]
    goes_back = times < AGAIN or any(later < earlier for earlier, later in pairwise(known))
    return len(sizes) >= ROW and goes_back and unnamed >= times * len(missing)


def has_rule(since: Sequence[int | None]) -> bool:
    """Whether most steps have one size, of those up to the last one that is known.

    Others stand alone between them, as an odd batch does, or are few.
    """
    known = [graph for graph in since if graph is not None]
    last = max((k for k, graph in enumerate(since) if graph is not None), default=-1)
    if not known:
        return False
    ((most, times),) = Counter(known).most_common(1)
    return times >= _rule(since, most) * (last + 1)


def _rule(since: Sequence[int | None], most: int) -> float:
    """The part of the steps that makes a size the rule; `most` is that of most of them."""
    is_in_row = any(most not in pair and None not in pair for pair in pairwise(since))
    return FIXED if is_in_row else RULE


def _is_odd_batch(
    graphs: Sequence[CapturedGraph], again: Sequence[int], since: Sequence[int | None]
) -> bool:
    """Whether there are two sizes of a batch, one of which is hardly known to run.

    Where most hits have no name nothing says which size is the rule.
    """
    if len(graphs) != ODD or not all(map(is_of_batch, sizes_apart(graphs))):
        return False
    known = Counter(graph for graph in since if graph is not None).most_common(1)
    rule = _rule(since, known[0][0]) if known else RULE
    return min(again) < (1 - rule) * sum(again)


def brings_size(
    number: int,
    graphs: Sequence[CapturedGraph],
    comparisons: Sequence[Comparison],
    here: Sequence[int | None],
) -> bool:
    """Whether a graph is one that ran `here` before it but for the size of an input, proved."""
    outcome = comparisons[number].outcome
    is_size = outcome is not None and any(one.kind is INPUT_SHAPE for one in outcome.causes)
    return is_size and changes_sizes_only(number, graphs, comparisons, here)


def changes_sizes_only(
    number: int,
    graphs: Sequence[CapturedGraph],
    comparisons: Sequence[Comparison],
    here: Sequence[int | None],
) -> bool:
    """Whether a graph is one that ran here before it but for a size, or for state."""
    outcome: Outcome | None = comparisons[number].outcome
    other = comparisons[number].number
    if outcome is None or other is None or other not in here or not outcome.proved:
        return False
    others = [c for c in outcome.causes if not (c.kind in SIZES or c.expected)]
    has_sizes = any(cause.kind in SIZES for cause in outcome.causes)
    if has_sizes and sum(cause.share for cause in others) <= BESIDE:
        return True
    if not all(map(may_come_of_size, others)):
        return False
    a, b = graphs[other].sketch, graphs[number].sketch
    return not others or _cuts_only(a, b) or (has_sizes and _has_more_turns(a, b))


def may_come_of_size(cause: Cause) -> bool:
    """Whether it may be one more turn of a loop over an input, or what such a loop takes in."""
    return cause.kind.is_piece or (cause.kind is ADDED_INPUT and not cause.place.tensors)


def _cuts_only(a: Sketch, b: Sketch) -> bool:
    """Whether what one computes and the other does not is cut off or filled up.

    A slice of the whole is no slice, and what is never filled up is not padded.
    """
    one, other = opcodes_of(a.histogram()), opcodes_of(b.histogram())
    return {*(one - other), *(other - one)} <= CUTS


def _has_more_turns(a: Sketch, b: Sketch) -> bool:
    """Whether the larger graph computes several times more of what both do, as a loop does.

    Nothing is new in it, so that it is no branch, and nothing is missing but what is cut.
    """
    one, other = sorted((opcodes_of(a.histogram()), opcodes_of(b.histogram())), key=Counter.total)
    return {*(one - other), *({*other} - {*one})} <= CUTS


def _count_up(lengths: Sequence[int], ran: Sequence[int | None]) -> bool:
    """Whether each is as much longer than the one before, and steps go up so, or begin again.

    Sizes of buckets may be equally far apart, and may even come first in this order.
    """
    steps = {later - earlier for earlier, later in pairwise(lengths)}
    if len(lengths) < ROW or len(steps) != 1:
        return False
    allowed = {0, *steps}
    known = ((x, y) for x, y in pairwise(ran) if x is not None and y is not None)
    return all(y - x in allowed or y == lengths[0] for x, y in known)


def _lengths(graphs: Sequence[CapturedGraph]) -> list[int]:
    """What differs among their inputs, in sizes added up."""
    inputs = [
        Counter(without_layout(shape) for _, shape in graph.sketch.interface.inputs)
        for graph in graphs
    ]
    alike = reduce(and_, inputs)
    return [sum(map(_length, (own - alike).elements())) for own in inputs]


def _length(shape: str) -> int:
    """The sizes of an array's dimensions, added up."""
    return sum(map(int, re.findall(r"\d+", shape.partition("[")[2])))


def as_few_sizes(cause: Cause, members: Sequence[GraphNode]) -> Cause:
    """The cause of a single graph, said as what it is over the run: the sizes that there are."""
    shapes = shapes_of(members)
    number = f"{len(shapes)} sizes" if len(shapes) > 1 else "several sizes"
    listed = say(" (", join(shapes, MOST), ")") if len(shapes) > 1 else say()
    ran_again = all(node.hits for node in members)
    since = "each of which ran again" if ran_again else "and no size was new after them"
    return replace(
        cause,
        title=say(
            f"an input comes in {number}",
            listed,
            at(cause.lines),
            f", in turn: {count(len(members), 'more graph')}, {since}",
        ),
        fix=say(
            "None needed if the sizes are a choice, such as length buckets: each compiles once. "
            "For one graph in all pad every batch to the largest."
        ),
        short=say(f"an input comes in {number}", listed),
        short_fix=say("Pad every batch to the largest size."),
    )


def as_stages(cause: Cause, members: Sequence[GraphNode]) -> Cause:
    """The cause of a single graph, said of stages of the program that have sizes of their own."""
    shapes = shapes_of(members)
    listed = say(" (", join(shapes, MOST), ")") if len(shapes) > 1 else say()
    stages = f"an input has another size in each of {count(max(len(shapes), 2), 'stage')}"
    return replace(
        cause,
        title=say(
            stages,
            listed,
            at(cause.lines),
            f": {count(len(members), 'more graph')}, and none is known to come back",
        ),
        fix=say(
            "None needed if the stages are a choice, such as progressive resizing: each compiles "
            "once. For one graph in all pad every batch to the largest."
        ),
        short=say(stages, listed),
        short_fix=say("Pad every batch to the largest size."),
    )


def shapes_of(members: Sequence[GraphNode]) -> list[str]:
    """The inputs that the graphs cite, and those that they are compared with, by their size.

    Of those of one size, such as tokens and their mask, one is told.
    """
    outcomes = [node.explanation for node in members if node.explanation]
    return _by_size(one for found in outcomes for one in (found.first_a, found.first_b))


def own_shapes_of(members: Sequence[GraphNode]) -> list[str]:
    """The same of the graphs alone, without those that they are compared with."""
    return _by_size(node.explanation.first_b for node in members if node.explanation)


def _by_size(cited: Iterable[Cited | None]) -> list[str]:
    inputs = {shape.partition("[")[2]: shape for shape in filter(None, map(_input_shape, cited))}
    return sorted(inputs.values(), key=lambda shape: (_length(shape), shape))


def _input_shape(cited: Cited | None) -> str:
    is_input = cited is not None and cited.opcode == "parameter"
    return without_layout(cited.shape) if cited and is_input else ""
