"""In which sizes the inputs of graphs differ."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from itertools import combinations
from typing import TYPE_CHECKING, NamedTuple

from xlagraph.runs.graphs.sketch import without_layout

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from xlagraph.runs.graphs.captured import CapturedGraph


class Size(NamedTuple):
    """The size of one dimension of an input."""

    rank: int
    dimension: int
    size: int


def sizes_apart(graphs: Sequence[CapturedGraph]) -> list[frozenset[Size]]:
    """For each graph the sizes of its inputs in the dimensions in which they differ in size.

    Graphs that have other inputs than all the rest, such as state, say nothing of sizes.
    """
    inputs = [_shapes(graph) for graph in graphs]
    own: list[set[tuple[int, ...]]] = [set() for _ in graphs]
    for a, b in combinations(range(len(graphs)), 2):
        one, other = inputs[a] - inputs[b], inputs[b] - inputs[a]
        if _kinds(one) == _kinds(other):
            own[a].update(map(_sizes, one))
            own[b].update(map(_sizes, other))
    sizes = [frozenset(_each(shapes)) for shapes in own]
    values: defaultdict[tuple[int, int], set[frozenset[Size]]] = defaultdict(set)
    for found in filter(None, sizes):
        for key in {size[:2] for size in found}:
            values[key].add(frozenset(size for size in found if size[:2] == key))
    return [frozenset(size for size in one if len(values[size[:2]]) > 1) for one in sizes]


def is_of_batch(sizes: Iterable[Size]) -> bool:
    """Whether no size is of another dimension than the first, as the number of examples is."""
    return not any(size.dimension for size in sizes)


def examples(graphs: Sequence[CapturedGraph]) -> list[int | None]:
    """For each graph the number of examples in its batch; None where that is not known.

    An input may have examples and their parts in one dimension: asked are those of the rank that
    comes in the fewest sizes.
    """
    apart = sizes_apart(graphs)
    values: defaultdict[int, set[int]] = defaultdict(set)
    for one in (one for sizes in apart for one in sizes if not one.dimension):
        values[one.rank].add(one.size)
    rank = min(values, key=lambda rank: (len(values[rank]), rank), default=None)
    of_rank = ([one.size for one in sizes if one[:2] == (rank, 0)] for sizes in apart)
    return [found[0] if len(found) == 1 else None for found in of_rank]


def new_sizes(graph: CapturedGraph, other: CapturedGraph) -> frozenset[Size]:
    """The sizes of inputs that another graph has not."""
    return frozenset(_each(map(_sizes, _shapes(graph) - _shapes(other))))


def _shapes(graph: CapturedGraph) -> Counter[str]:
    shapes = (without_layout(shape) for _, shape in graph.sketch.interface.inputs)
    return Counter(shape for shape in shapes if not shape.endswith("[]"))


def _kinds(shapes: Counter[str]) -> Counter[tuple[str, int]]:
    """How many there are of each type and rank."""
    found = Counter[tuple[str, int]]()
    for shape, number in shapes.items():
        found[shape.partition("[")[0], len(_sizes(shape))] += number
    return found


def _sizes(shape: str) -> tuple[int, ...]:
    return tuple(map(int, re.findall(r"\d+", shape.partition("[")[2])))


def _each(shapes: Iterable[tuple[int, ...]]) -> list[Size]:
    return [Size(len(shape), k, size) for shape in shapes for k, size in enumerate(shape)]
