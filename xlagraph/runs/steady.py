"""Comparisons between the graphs that the steps take in turns: the state that a run stays in."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING

from xlagraph.explain import explain_modules
from xlagraph.hlo import read_stored

if TYPE_CHECKING:
    from xlagraph.cause.model import Explanation
    from xlagraph.graph import Module
    from xlagraph.run.reader import Run
    from xlagraph.runs.model import GraphNode, RunExplanation

MAX_GRAPHS = 4
"""More graphs than these take no turns: each is one of many."""


@dataclass(frozen=True, slots=True, eq=False)
class Comparison:
    """A graph explained by an earlier one."""

    before: GraphNode
    after: GraphNode
    explanation: Explanation

    @property
    def labels(self) -> tuple[str, str]:
        """The letters of both."""
        return self.before.letter, self.after.letter


def comparisons(explained: RunExplanation) -> list[Comparison]:
    """Each graph with the one it was compared with."""
    nodes = {node.digest: node for node in explained.graphs}
    return [
        Comparison(nodes[node.nearest], node, node.explanation)
        for node in explained.graphs
        if node.explanation
    ]


def steady_comparisons(explained: RunExplanation) -> list[Comparison]:
    """Neighbours among the alternating graphs; those compared already are taken from there."""
    if len(explained.alternating) > MAX_GRAPHS:
        return []
    nodes = {node.letter: node for node in explained.graphs}
    known = {frozenset(one.labels): one for one in comparisons(explained)}
    found = []
    for a, b in pairwise(explained.alternating):
        one = known.get(frozenset((a, b)))
        found.append(one or _compared(explained.run, nodes[a], nodes[b]))
    return found


def _compared(run: Run, before: GraphNode, after: GraphNode) -> Comparison:
    modules = _module(run, before), _module(run, after)
    labels = before.letter, after.letter
    explanation = explain_modules(*modules, before.context, after.context, labels)
    return Comparison(before, after, explanation)


def _module(run: Run, node: GraphNode) -> Module:
    return read_stored(*run.graph(node.digest), f"{run.name}:{node.letter}")
