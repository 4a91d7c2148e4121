"""Comparisons between the graphs that the steps take in turns: the state that a run stays in."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from xlagraph.cause.model import Context, Explanation
    from xlagraph.runs.model import GraphNode, RunExplanation

MAX_GRAPHS = 4
"""More graphs than these take no turns: each is one of many."""


@dataclass(frozen=True, slots=True, eq=False)
class Comparison:
    """A graph and an earlier one that explains it."""

    explained: RunExplanation
    before: GraphNode
    after: GraphNode

    @property
    def labels(self) -> tuple[str, str]:
        """The letters of both."""
        return self.before.letter, self.after.letter

    def explain(self) -> tuple[Explanation, tuple[Context, Context]]:
        """The explanation with both modules, made now, and what the capture knows of them.

        Raises:
            InputError: a module is not readable HLO.
            RunError: a module is damaged.
        """
        return self.explained.explain(self.before, self.after)


def comparisons(explained: RunExplanation) -> list[Comparison]:
    """Each graph with the one it was compared with."""
    nodes = {node.digest: node for node in explained.graphs}
    return [
        Comparison(explained, nodes[node.nearest], node)
        for node in explained.graphs
        if node.explanation
    ]


def steady_comparisons(explained: RunExplanation) -> list[Comparison]:
    """Neighbours among the alternating graphs; those compared already are taken from there."""
    if len(explained.alternating) > MAX_GRAPHS:
        return []
    nodes = {node.letter: node for node in explained.graphs}
    known = {frozenset(one.labels): one for one in comparisons(explained)}
    return [
        known.get(frozenset((a, b))) or Comparison(explained, nodes[a], nodes[b])
        for a, b in pairwise(explained.alternating)
    ]
