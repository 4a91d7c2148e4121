"""Graphs that a program's steps return to again and again."""

from __future__ import annotations

from collections import Counter
from itertools import pairwise
from typing import TYPE_CHECKING

from xlagraph.runs.history import training_steps

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from xlagraph.run.reader import Run
    from xlagraph.run.records import SyncRecord

MIN_TURNS = 2
"""How often steps must come to a graph from another one: once may be an end, or an evaluation."""


def alternating(run: Run, letters: Mapping[str, str]) -> tuple[str, ...]:
    """Letters of the graphs to which the training steps return again and again.

    What follows what at one call site is a graph of its own; where the steps go round in it is
    a strongly connected component.
    """
    for process in run.processes:
        for steps in training_steps(process):
            found = _turning(_graphs(steps, letters))
            if len(found) > 1:
                return tuple(sorted(found))
    return ()


def _graphs(steps: Sequence[SyncRecord], letters: Mapping[str, str]) -> list[str]:
    """The letter of each step's graph; of a hit without a name, the last of its fingerprint."""
    latest: dict[tuple[int, ...], str] = {}
    found = []
    for sync in steps:
        known = [letters[digest] for digest in sync.graphs if digest in letters]
        if known:
            latest[sync.fingerprint] = known[-1]
        found.append(latest.get(sync.fingerprint, ""))
    return [letter for letter in found if letter]


def _turning(steps: Sequence[str]) -> set[str]:
    """The graphs that the steps go round in as the run ends; empty where they do not."""
    changes = [(before, now) for before, now in pairwise(steps) if before != now]
    entered = Counter([*steps[:1], *(now for _, now in changes)])
    again = {graph for graph, number in entered.items() if number >= MIN_TURNS}
    if len(again) < 2:
        return set()
    import networkx as nx

    follows = nx.DiGraph(change for change in changes if again.issuperset(change))
    components = nx.strongly_connected_components(follows)
    return next((set(one) for one in components if steps[-1] in one), set())
