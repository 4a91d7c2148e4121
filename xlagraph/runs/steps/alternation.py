"""Graphs that a program's steps return to again and again."""

from __future__ import annotations

from collections import Counter
from itertools import pairwise
from typing import TYPE_CHECKING

from xlagraph.runs.steps.history import training_steps

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from xlagraph.run.reader import Run
    from xlagraph.run.records import SyncRecord

MIN_TURNS = 2
"""How often steps must come to a graph from another one: once may be an end, or an evaluation."""


def alternating(run: Run, letters: Mapping[str, str]) -> tuple[tuple[str, ...], int]:
    """Letters of the graphs to which the training steps return again and again, and since when.

    What follows what at one call site is a graph of its own; where the steps go round in it is
    a strongly connected component.
    """
    for process in run.processes:
        for steps in training_steps(process):
            ran = _graphs(steps, letters)
            found = _turning([letter for _, letter in ran])
            if len(found) > 1:
                others = [step for step, letter in ran if letter not in found]
                begin = max(others, default=-1)
                return tuple(sorted(found)), min(step for step, _ in ran if step > begin)
    return (), 0


def cycle_words(letters: Sequence[str], since: int) -> str:
    """What is said of that: ``From step 8 on steps keep returning to F, G and H.``; else nothing.

    Steps of other call sites may run between them, and the order need not be a fixed one.
    """
    if not letters:
        return ""
    *others, last = letters
    return f"From step {since} on steps keep returning to {', '.join(others)} and {last}."


def _graphs(steps: Sequence[SyncRecord], letters: Mapping[str, str]) -> list[tuple[int, str]]:
    """Step and graph of each; of a hit without a name, the last graph of its fingerprint."""
    latest: dict[tuple[int, ...], str] = {}
    found = []
    for sync in steps:
        known = [letters[digest] for digest in sync.graphs if digest in letters]
        if known:
            latest[sync.fingerprint] = known[-1]
        found.append((sync.step, latest.get(sync.fingerprint, "")))
    return [one for one in found if one[1]]


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
