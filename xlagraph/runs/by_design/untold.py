"""Graphs that are taken to be meant, and of which there is nothing to say.

The second step of a part of the program takes in the state that the first one made. What else it
differs in comes of that first step too, as of a copy of the weights that shared them, or of tensors
that the first step had as constants: no change that somebody made.

A place of the program with one graph that only came again is a kind of step. That nobody can prove
what makes it differ from the steps of another place is no news.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import TYPE_CHECKING

from xlagraph.message import say
from xlagraph.runs.model import Meant

if TYPE_CHECKING:
    from collections.abc import Sequence

    from xlagraph.message import SourceLine
    from xlagraph.runs.model import GraphNode

ASKED = frozenset({Meant.PHASE, Meant.RHYTHM})
"""How a change comes that may be the second step of a part."""


def without_notes(nodes: Sequence[GraphNode]) -> list[GraphNode]:
    """The graphs, with those of which nothing is to be said as warm-up or as a kind of step."""
    number = Counter((node.rank, node.call_site) for node in nodes)
    last: dict[tuple[int, SourceLine | None], GraphNode] = {}
    found = []
    for node in nodes:
        place = node.rank, node.call_site
        if node.meant in ASKED and _is_second(node, last.get(place)):
            found.append(replace(node, meant=Meant.NOT))
        elif node.meant is Meant.SETTLED and number[place] == 1 and _is_kind_of_step(node):
            here = say("step at ", node.call_site) if node.call_site else say()
            found.append(replace(node, meant=Meant.NOT, by_design=True, part=node.part or here))
        else:
            found.append(node)
        last[place] = node
    return found


def _is_second(node: GraphNode, before: GraphNode | None) -> bool:
    """Whether a graph takes in the state that the one before it at its place made.

    That one began its part, and has not come again as far as is known.
    """
    causes = node.explanation.causes if node.explanation else ()
    return (
        before is not None
        and before.digest == node.nearest
        and before.warm_up
        and (before.by_design or before.explanation is None)
        and not before.hits
        and any(cause.expected for cause in causes)
    )


def _is_kind_of_step(node: GraphNode) -> bool:
    """Whether a graph is known to end steps at its line, and to come again."""
    if node.sync_kind != "step" or node.call_site is None or not node.hits:
        return False
    return node.explanation is None or not node.explanation.proved
