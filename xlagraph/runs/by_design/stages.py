"""Stages of a program that train what was not trained before, and all that comes as one begins.

A head is trained first and then the whole model, with a new optimizer, and perhaps with more
micro-batches, other sizes, another loss. Each graph of the new stage differs from those before in
several ways at once. What says that this is a stage is when they come: a graph gives out gradients,
or new values, of tensors for which none at its place did before; from then on no earlier graph of
the place runs again; and all that is new there came in the shorter part of the stage.
"""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from typing import TYPE_CHECKING

from xlagraph.runs.graphs.weights import gradients_of, weights_of
from xlagraph.runs.model import Meant

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from xlagraph.run.records import Frame
    from xlagraph.runs.by_design.design import Design
    from xlagraph.runs.graphs.captured import CapturedGraph
    from xlagraph.runs.model import GraphNode
    from xlagraph.tensors import Tensor

FEW = 8
"""More new graphs at one place are no set that somebody meant."""
LASTING = 12
"""A stage has so many steps at least behind the last that compiled for it."""


def with_stages(
    nodes: Sequence[GraphNode],
    graphs: Sequence[CapturedGraph],
    design: Design,
    told: frozenset[str],
    steps: int,
) -> list[GraphNode]:
    """The graphs, with those meant that came as a stage began and are all that came.

    `told`: digests of graphs that are known to be part of something that goes on.
    `steps`: how many the run has.
    """
    found = list(nodes)
    files = dict.fromkeys(graph.process.file for graph in graphs)
    for own in ([k for k, g in enumerate(graphs) if g.process.file == file] for file in files):
        begins = _begins([graphs[k] for k in own])
        for begin, end in pairwise([*begins, steps]):
            for k in _members(own, graphs, design, begin, end):
                if not nodes[k].warm_up and nodes[k].digest not in told:
                    found[k] = replace(nodes[k], warm_up=True, meant=Meant.PHASE)
    return found


def _begins(graphs: Sequence[CapturedGraph]) -> list[int]:
    """The steps in which a graph trains tensors that none at its place did, as others did before.

    `graphs`: those of one process, in order of appearance.
    """
    known: dict[tuple[Frame, ...], set[Tensor]] = {}
    found: list[int] = []
    for graph in graphs:
        trained = weights_of(graph).trained | gradients_of(graph)
        before = known.setdefault(graph.site, set())
        is_same = bool(found) and graph.step < found[-1] + LASTING  # it goes on beginning
        if before and not trained <= before and not is_same:
            found.append(graph.step)
        before |= trained
    return found


def _members(
    own: Sequence[int], graphs: Sequence[CapturedGraph], design: Design, begin: int, end: int
) -> Iterator[int]:
    """The graphs that came in a stage, at the places that run no earlier graph in it."""
    for site in dict.fromkeys(graphs[k].site for k in own):
        here = [k for k in own if graphs[k].site == site]
        new = [k for k in here if begin <= graphs[k].step < end]
        if new and len(new) <= FEW and _is_over(here, graphs, design, begin, end):
            last = graphs[new[-1]].step
            if end - 1 - last >= max(LASTING, last - begin):
                yield from new


def _is_over(
    here: Sequence[int], graphs: Sequence[CapturedGraph], design: Design, begin: int, end: int
) -> bool:
    """Whether a place ran graphs before a stage, and is known to run none of them in it."""
    before = {graphs[k].record.digest for k in here if graphs[k].step < begin}
    site: tuple[Frame, ...] = graphs[here[0]].site
    known = [
        turn.graph
        for turn in design.turns_of(here[0])
        if turn.site == site and begin <= turn.step < end and turn.graph
    ]
    return bool(before) and bool(known) and before.isdisjoint(known)
