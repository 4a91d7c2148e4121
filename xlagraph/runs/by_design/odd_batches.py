"""The short last batch of each epoch: another size of the batch, which comes again in each.

Who keeps it wants all examples to count. It costs one more graph, compiled once, so it is told and
is no alarm, where the steps at its place show that it comes to no more:

* the graph differs from one that ran there before in sizes of inputs, proved;
* its batch is shorter than that of most steps there, and no third number of examples comes with
  the same length or width;
* it came again, twice at least, as far as it is known which graph a hit ran;
* the steps of its place since then are many, and are its longer part; and nothing compiles any
  more in the whole run.

A training of a few short epochs shows none of that, and stays an alarm. So do odd batches of
several sizes, as the ends of several sets of data have, and other dimensions that are mostly alike.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from xlagraph.cause.sources import at
from xlagraph.message import count, join, say
from xlagraph.runs.by_design.few_sizes import MOST, RULE, brings_size, own_shapes_of
from xlagraph.runs.graphs.input_sizes import examples, is_of_batch, sizes_apart
from xlagraph.runs.model import Meant

if TYPE_CHECKING:
    from collections.abc import Sequence

    from xlagraph.cause.model import Cause
    from xlagraph.runs.by_design.design import Design
    from xlagraph.runs.compare import Comparison
    from xlagraph.runs.graphs.captured import CapturedGraph
    from xlagraph.runs.model import GraphNode

LASTING = 12
"""So many steps at least without a compile, of the run and of the batch's own place."""
AGAIN = 2
"""So often it ran again at least."""


def with_odd_batches(
    nodes: Sequence[GraphNode],
    graphs: Sequence[CapturedGraph],
    comparisons: Sequence[Comparison],
    design: Design,
    told: frozenset[str],
    since: int,
) -> list[GraphNode]:
    """The graphs, with those meant that are the odd batches of a place that has settled.

    `told`: digests of graphs that are known to be part of something that goes on.
    `since`: the steps of the run behind the last that compiled.
    """
    found = list(nodes)
    for k, node in enumerate(nodes if since >= LASTING else ()):
        is_open = not node.warm_up and node.digest not in told
        if is_open and _is_settled(k, node, graphs, comparisons, design):
            found[k] = replace(node, warm_up=True, meant=Meant.ODD)
    return found


def _is_settled(
    number: int,
    node: GraphNode,
    graphs: Sequence[CapturedGraph],
    comparisons: Sequence[Comparison],
    design: Design,
) -> bool:
    """Whether a graph is that of an odd batch which comes again, and nothing else may come."""
    turns, seen = design.turns_of_sort(number)
    here = [one for one in seen if one is not None]
    if node.sync_kind != "step" or number not in here:
        return False
    steps = design.ran_at_place(number)  # micro-batches too
    until = next(k for k, step in enumerate(steps) if number in step)
    return (
        len(steps) - 1 - until >= max(LASTING, until)
        and node.hits + node.unnamed_hits >= AGAIN
        and brings_size(number, graphs, comparisons, here)
        and _is_odd(number, turns[turns.index(number) + 1 :], graphs)
    )


def _is_odd(number: int, since: Sequence[int | None], graphs: Sequence[CapturedGraph]) -> bool:
    """Whether a graph has fewer examples than most steps, and no other has as few or fewer.

    `since`: what ran there behind it, as far as that is known. Others may have other lengths.
    """
    here = list(dict.fromkeys((number, *(one for one in since if one is not None))))
    batches = dict(zip(here, examples([graphs[one] for one in here]), strict=True))
    known = [one for turn in since if turn is not None and (one := batches[turn]) is not None]
    own, full = batches[number], max(known, default=0)
    if own is None or own >= full or known.count(full) < RULE * len(known):
        return False
    odd = [k for k, one in batches.items() if one is not None and one < full and k != number]
    apart = (sizes_apart([graphs[number], graphs[k]])[0] for k in odd)
    return not any(sizes and is_of_batch(sizes) for sizes in apart)


def as_odd_batch(cause: Cause, members: Sequence[GraphNode]) -> Cause:
    """The cause of a single graph, said as what it is over the run: one batch of each epoch."""
    shapes = own_shapes_of(members)
    listed = say(" (", join(shapes, MOST), ")") if shapes else say()
    each = " each" if len(members) > 1 else ""
    return replace(
        cause,
        title=say(
            "an odd batch comes again and again",
            listed,
            at(cause.lines),
            f": {count(len(members), 'more graph')}, compiled once{each}",
        ),
        fix=say(
            "None needed if all examples are to count, as of a short last batch. To save the "
            "compile pad it and mask what is added, or in training leave it out (drop_last=True)."
        ),
        short=say("an odd batch comes again and again", listed),
        short_fix=say("Pad it, or in training leave it out (drop_last=True)."),
    )
