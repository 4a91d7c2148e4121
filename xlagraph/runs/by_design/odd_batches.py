"""The short last batch of each epoch: another size of the batch, which comes again in each.

Who keeps it wants all examples to count. It costs one more graph, compiled once, so it is told and
is no alarm, where the steps at its place show that it comes to no more:

* the graph differs from one that ran there before in sizes of inputs, proved;
* its batch is shorter than that of most steps there;
* it came again, twice at least, as far as it is known which graph a hit ran;
* the steps of its place since then are many, and are its longer part; and nothing compiles any
  more in the whole run.

A training of a few short epochs shows none of that, and stays an alarm. So do other dimensions that
are mostly alike, and batches that get longer step by step.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from xlagraph.cause.sources import at
from xlagraph.message import count, join, say
from xlagraph.runs.by_design.few_sizes import MOST, RULE, brings_size, shapes_of
from xlagraph.runs.graphs.input_sizes import examples
from xlagraph.runs.model import Meant

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

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
    begin = turns.index(number)
    since = len(turns) - 1 - begin
    return (
        since >= max(LASTING, begin)
        and node.hits + node.unnamed_hits >= AGAIN
        and brings_size(number, graphs, comparisons, here)
        and _is_short(
            number, turns[begin + 1 :], dict(zip(here, _examples(here, graphs), strict=True))
        )
    )


def _examples(here: Sequence[int], graphs: Sequence[CapturedGraph]) -> list[int | None]:
    return examples([graphs[one] for one in here])


def _is_short(number: int, turns: Sequence[int | None], batches: Mapping[int, int | None]) -> bool:
    """Whether a graph has fewer examples than most steps, of those that are known.

    `batches`: by graph how many it has.
    """
    known = [one for turn in turns if turn is not None and (one := batches[turn]) is not None]
    own = batches[number]
    full = max(known, default=0)
    return own is not None and own < full and known.count(full) >= RULE * len(known)


def as_odd_batch(cause: Cause, members: Sequence[GraphNode]) -> Cause:
    """The cause of a single graph, said as what it is over the run: one batch of each epoch."""
    shapes = shapes_of(members)
    listed = say(" (", join(shapes, MOST), ")") if len(shapes) > 1 else say()
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
            "compile leave it out (drop_last=True), or pad it and mask what is added."
        ),
        short=say("an odd batch comes again and again", listed),
        short_fix=say("Leave it out (drop_last=True) or pad it."),
    )
