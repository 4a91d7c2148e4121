"""Stages of a program that train what was not trained before, and all that comes as one begins.

A head is trained first and then the whole model, with a new optimizer, and perhaps with more
micro-batches, other sizes, another loss. Each graph of the new stage differs from those before in
several ways at once. What says that this is a stage is when they come: a graph gives out gradients,
or new values, of tensors for which none at its place did before, or computes other pieces, long
after the last new one there; from then on no earlier graph of the place runs again; and all that is
new there came in the shorter part of the stage. So does a size that the program makes otherwise, as
where a queue joins the logits from the second epoch on, if that is the only one and stays for long.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import replace
from itertools import chain, pairwise
from typing import TYPE_CHECKING

from xlagraph.rules.inputs.initial_state import INITIAL_STATE
from xlagraph.rules.shapes.sizes import INPUT_SHAPE, PYTHON_INDEX, PYTHON_SIZE
from xlagraph.runs.graphs.weights import gradients_of, weights_of
from xlagraph.runs.model import Meant

if TYPE_CHECKING:
    from collections.abc import Sequence

    from xlagraph.run.records import Frame
    from xlagraph.runs.by_design.design import Design
    from xlagraph.runs.graphs.captured import CapturedGraph
    from xlagraph.runs.model import GraphNode
    from xlagraph.tensors import Tensor

FEW = 8
"""More new graphs at one place are no set that somebody meant."""
LASTING = 12
"""A stage has so many steps at least behind the last that compiled for it."""
LASTING_SIZE = 24
"""One that begins with a size that the program makes has so many."""
BEFORE = 3
"""Steps that a place ran before a stage, at least: the first two are a program's warm-up."""


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
    if all(node.warm_up for node in nodes):
        return found
    processes: defaultdict[str, dict[tuple[Frame, ...], list[int]]] = defaultdict(dict)
    for k, graph in enumerate(graphs):
        processes[graph.process.file].setdefault(graph.site, []).append(k)
    for places in processes.values():
        begins = _begins([(graphs[k], nodes[k]) for k in sorted(chain(*places.values()))], steps)
        for begin, end in pairwise([*begins, steps]):
            for k in chain(*(_new(here, graphs, design, begin, end) for here in places.values())):
                if not nodes[k].warm_up and nodes[k].digest not in told:
                    meant = _within(k, nodes[k], graphs, design)
                    found[k] = replace(nodes[k], warm_up=True, meant=meant)
    return found


def _within(number: int, node: GraphNode, graphs: Sequence[CapturedGraph], design: Design) -> Meant:
    """How a new graph of a stage is meant: another size, or what an epoch makes anew, begins none.

    Others run again behind it.
    """
    kinds = node.explanation.proved_kinds if node.explanation else frozenset()
    begin, own = graphs[number].step, graphs[number].record.digest
    if all(t.graph in (own, None) for t in design.turns_of(number) if t.step > begin):
        return Meant.PHASE
    if kinds == {INITIAL_STATE}:
        return Meant.EARLY
    return Meant.SIZES if kinds == {INPUT_SHAPE} else Meant.PHASE


def _begins(graphs: Sequence[tuple[CapturedGraph, GraphNode]], steps: int) -> list[int]:
    """The steps in which a graph trains tensors that none at its place did, as others did before.

    And those in which one computes other pieces, where nothing was new for as long as a stage, or
    the one in which a program that has many steps behind it makes another size.
    `graphs`: those of one process, in order of appearance.
    """
    sized = [graph.step for graph, node in graphs if not node.warm_up and _makes_size(node)]
    is_once = len(sized) == 1 and steps - sized[0] > LASTING_SIZE
    known: dict[tuple[Frame, ...], set[Tensor]] = {}
    came: dict[tuple[Frame, ...], int] = {}
    found: list[int] = []
    for graph, node in graphs:
        trained = weights_of(graph).trained | gradients_of(graph)
        before = known.setdefault(graph.site, set())
        is_same = bool(found) and graph.step < found[-1] + LASTING  # it goes on beginning
        is_late = graph.step >= came.get(graph.site, graph.step) + LASTING
        is_switched = _has_pieces(node) or (is_once and graph.step == sized[0])
        is_other = bool(before and not trained <= before) or (is_late and is_switched)
        if is_other and not is_same:
            found.append(graph.step)
        before |= trained
        came[graph.site] = graph.step
    return found


def _has_pieces(node: GraphNode) -> bool:
    """Whether a graph is another one for what it computes, first of all; proved."""
    outcome = node.explanation
    if outcome is None or not outcome.proved or not outcome.causes:
        return False
    return outcome.causes[0].kind.is_piece


def _makes_size(node: GraphNode) -> bool:
    """Whether a graph is another one for a size that the program makes, first of all; proved."""
    outcome = node.explanation
    if outcome is None or not outcome.proved or not outcome.causes:
        return False
    return outcome.causes[0].kind in (PYTHON_INDEX, PYTHON_SIZE)


def _new(
    here: Sequence[int], graphs: Sequence[CapturedGraph], design: Design, begin: int, end: int
) -> list[int]:
    """The graphs of a place that came in a stage, if it runs no earlier graph in it."""
    new = [k for k in here if begin <= graphs[k].step < end]
    if not new or len(new) > FEW or not _is_over(here, graphs, design, begin, end):
        return []
    last = graphs[new[-1]].step
    return new if end - 1 - last >= max(LASTING, last - begin) else []


def _is_over(
    here: Sequence[int], graphs: Sequence[CapturedGraph], design: Design, begin: int, end: int
) -> bool:
    """Whether a place ran graphs before a stage, in some steps, and is known to run none in it."""
    before = {graphs[k].record.digest for k in here if graphs[k].step < begin}
    site: tuple[Frame, ...] = graphs[here[0]].site
    turns = [turn for turn in design.turns_of(here[0]) if turn.site == site]
    known = [turn.graph for turn in turns if begin <= turn.step < end and turn.graph]
    is_stage = sum(turn.step < begin for turn in turns) >= BEFORE
    return is_stage and bool(known) and before.isdisjoint(known)
