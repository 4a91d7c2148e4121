"""Graphs that are taken to be meant, and of which there is nothing to say.

The second step of a part of the program takes in the state that the first one made. What else it
differs in comes of that first step too, as of a copy of the weights that shared them, or of tensors
that the first step had as constants: no change that somebody made. Where the first step made its
state itself, a later one that differs from it in that alone is no change either.

What an evaluation has otherwise than the training that it is most like, as where its own first
batch was of another size, is no change of the evaluation.

A place of the program with one graph that only came again is a kind of step. That nobody can prove
what makes it differ from the steps of another place is no news.

Nor is it a change of a training how its first update comes about. Where micro-batches run before
it, those whose gradients are added, and the first update itself, are kinds of step from then on.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import replace
from typing import TYPE_CHECKING

from xlagraph.rules.training.optimizer_state import OPTIMIZER_STATE
from xlagraph.runs.by_design.sorts import Part
from xlagraph.runs.graphs.context import step_at
from xlagraph.runs.model import Meant

if TYPE_CHECKING:
    from collections.abc import Sequence

    from xlagraph.message import SourceLine
    from xlagraph.runs.by_design.design import Design
    from xlagraph.runs.model import GraphNode

SWITCHED = frozenset({Meant.PHASE, Meant.RHYTHM})
"""How a change comes that somebody may have made."""
ASKED = SWITCHED | {Meant.SETTLED}
"""The same of one that may be the second step of a part."""
OF_FIRST = SWITCHED | {Meant.EARLY}
"""The same of one that may belong to the first update."""
GATHERS = (Part.MICRO_BATCH, Part.ACCUMULATE)


def without_notes(nodes: Sequence[GraphNode], design: Design) -> list[GraphNode]:
    """The graphs, with those of which nothing is to be said as warm-up or as a kind of step."""
    number = Counter((node.rank, node.call_site) for node in nodes)
    last: dict[tuple[int, SourceLine | None], GraphNode] = {}
    first = _until_first_update(nodes, design)
    known = {(node.rank, node.digest): j for j, node in enumerate(nodes)}
    found = []
    for k, node in enumerate(nodes):
        place = node.rank, node.call_site
        like = known.get((node.rank, node.nearest))
        if k in first or _is_of_evaluation(k, like, nodes, design):
            found.append(replace(node, meant=Meant.NOT, by_design=True))
        elif _is_second(node, last.get(place)) or _is_without_state(node, like, nodes):
            found.append(replace(node, meant=Meant.NOT))
        elif node.meant is Meant.SETTLED and number[place] == 1 and _is_kind_of_step(node):
            part = node.part or step_at(node.call_site)
            found.append(replace(node, meant=Meant.NOT, by_design=True, part=part))
        else:
            found.append(node)
        last[place] = node
    return found


def _until_first_update(nodes: Sequence[GraphNode], design: Design) -> frozenset[int]:
    """Numbers of graphs that are meant and belong to the first update of their place.

    A micro-batch has run there before. Of each sort nothing ran earlier, and it goes on.
    """
    places: defaultdict[object, list[int]] = defaultdict(list)
    for k, node in enumerate(nodes):
        if node.sync_kind == "step" and design.sort(k):
            places[node.rank, node.call_site].append(k)
    found = set[int]()
    for here in places.values():
        parts = [sort.part for k in here if (sort := design.sort(k))]
        if Part.UPDATE not in parts or parts[0] is not Part.MICRO_BATCH:
            continue
        update = parts.index(Part.UPDATE)
        if any(part not in GATHERS for part in parts[:update]):
            continue
        for place, k in enumerate(here[: update + 1]):
            is_first = parts.index(parts[place]) == place
            goes_on = nodes[k].hits or parts.count(parts[place]) > 1
            if nodes[k].meant in OF_FIRST and is_first and goes_on:
                found.add(k)
    return frozenset(found)


def _is_second(node: GraphNode, before: GraphNode | None) -> bool:
    """Whether a graph takes in the state that the one before it at its place made.

    That one began its part, and has not come again as far as is known.
    """
    causes = node.explanation.causes if node.explanation else ()
    return (
        node.meant in ASKED
        and (node.meant is not Meant.SETTLED or node.hits > 0)
        and before is not None
        and before.digest == node.nearest
        and before.warm_up
        and (before.by_design or before.explanation is None)
        and not before.hits
        and any(cause.expected for cause in causes)
    )


def _is_without_state(node: GraphNode, like: int | None, nodes: Sequence[GraphNode]) -> bool:
    """Whether a graph is as the first one of its place, but for the state that this alone made."""
    if like is None or node.meant not in OF_FIRST or not node.hits or node.explanation is None:
        return False
    first, causes = nodes[like], node.explanation.causes
    is_first = first.warm_up and first.explanation is None and not first.hits
    return (
        is_first
        and (first.rank, first.call_site) == (node.rank, node.call_site)
        and node.explanation.proved
        and all(cause.kind is OPTIMIZER_STATE for cause in causes)
    )


def _is_of_evaluation(
    number: int, like: int | None, nodes: Sequence[GraphNode], design: Design
) -> bool:
    """Whether a graph of an evaluation was compared with a step of another part, at another place.

    The evaluation has a graph of its own there before it, and this one ran again.
    """
    node, sort = nodes[number], design.sort(number)
    if like is None or node.meant not in SWITCHED or not node.hits:
        return False
    if sort is None or sort.part is not Part.EVALUATION or nodes[like].call_site == node.call_site:
        return False
    other = design.sort(like)
    earlier = nodes[:number]
    return (
        node.sync_kind == "step"
        and other is not None
        and other.part is not Part.EVALUATION
        and any((one.rank, one.call_site) == (node.rank, node.call_site) for one in earlier)
    )


def _is_kind_of_step(node: GraphNode) -> bool:
    """Whether a graph is known to end steps at its line, and to come again."""
    if node.sync_kind != "step" or node.call_site is None or not node.hits:
        return False
    return node.explanation is None or not node.explanation.proved
