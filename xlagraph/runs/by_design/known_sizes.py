"""Sizes that other steps of the program have too, none of which is a problem there.

A program whose batches come in few sizes evaluates with the same ones. Its evaluation has few
steps, or reads each batch, so that little is seen of their order; but that the sizes are a choice
is seen in training.
So does each stage of a training with those of the stages before.
So is a size that came with a stage in which other tensors are trained.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import replace
from itertools import groupby
from typing import TYPE_CHECKING

from xlagraph.runs.by_design.few_sizes import MOST, brings_size, stage_at, without_state
from xlagraph.runs.by_design.periodic import turns_of_part
from xlagraph.runs.graphs.input_sizes import new_sizes, sizes_apart
from xlagraph.runs.model import Meant

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from xlagraph.runs.by_design.design import Design
    from xlagraph.runs.compare import Comparison
    from xlagraph.runs.graphs.captured import CapturedGraph
    from xlagraph.runs.graphs.input_sizes import Size
    from xlagraph.runs.model import GraphNode


def with_known_sizes(
    nodes: Sequence[GraphNode],
    graphs: Sequence[CapturedGraph],
    comparisons: Sequence[Comparison],
    design: Design,
    parts: Mapping[int, int],
) -> list[GraphNode]:
    """The graphs, with those meant whose sizes are known of steps of another sort or place.

    `parts`: what comes in every n-th step.
    """
    seen = [
        stage_at(k, graphs, comparisons, turns_of_part(k, design, parts)).graphs
        for k in range(len(nodes))
    ]
    places = _places(nodes, graphs, comparisons, seen)
    found = list(nodes)
    for k, (node, comparison) in enumerate(zip(nodes, comparisons, strict=True)):
        other = comparison.number
        here = (other, k) if node.sync_kind == "value" else seen[k]
        if node.warm_up or other is None or k not in here:
            continue
        if not brings_size(k, graphs, comparisons, here):
            continue
        own = sizes_apart([graphs[other], graphs[k]])[1] or _among(k, graphs, here)
        file = graphs[k].process.file
        known = [meant for sizes, meant in places.get(file, ()) if own <= sizes]
        if own and known:
            is_stage = Meant.STAGES in known and _is_left(design.ran_at_place(k))
            meant = Meant.STAGES if is_stage else Meant.SIZES
            found[k] = replace(node, warm_up=True, meant=meant)
    return found


def _among(
    number: int, graphs: Sequence[CapturedGraph], here: Sequence[int | None]
) -> frozenset[Size]:
    """The sizes of a graph that takes in state, which the first of its stage makes."""
    seen = [k for k in here if k is not None]
    return sizes_apart([graphs[k] for k in seen])[seen.index(number)]


def _is_left(turns: Sequence[frozenset[int]]) -> bool:
    """Whether no graph is known to have run again after another one."""
    runs = [graph for graph, _ in groupby(turn for turn in turns if len(turn) == 1)]
    return len(runs) == len(set(runs))


def _places(
    nodes: Sequence[GraphNode],
    graphs: Sequence[CapturedGraph],
    comparisons: Sequence[Comparison],
    seen: Sequence[tuple[int | None, ...]],
) -> dict[str, list[tuple[frozenset[Size], Meant]]]:
    """By process: the sizes of each graph that came again, where several are meant, and how."""
    found: defaultdict[str, list[tuple[frozenset[Size], Meant]]] = defaultdict(list)
    for k, (node, comparison) in enumerate(zip(nodes, comparisons, strict=True)):
        if node.meant in (Meant.PHASE, Meant.STAGES) and comparison.number is not None:
            begun = new_sizes(graphs[k], graphs[comparison.number])
            found[graphs[k].process.file].append((begun, Meant.STAGES))
    files = (graph.process.file for graph in graphs)
    asked = dict.fromkeys(zip(files, seen, strict=True))
    for file, numbers in asked:
        here = [k for k in dict.fromkeys(without_state(numbers, comparisons)) if k is not None]
        if not 1 < len(here) <= MOST + 1 or not all(nodes[k].warm_up for k in here):
            continue
        sizes = sizes_apart([graphs[k] for k in here])
        again = [nodes[k].hits or nodes[k].unnamed_hits for k in here]
        each = zip(sizes, here, again, strict=True)
        found[file] += [(one, nodes[k].meant) for one, k, came in each if one and came]
    return found
