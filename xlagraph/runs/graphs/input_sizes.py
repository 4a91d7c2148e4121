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
    values: defaultdict[tuple[int, int], set[int]] = defaultdict(set)
    for size in (size for shapes in own for size in _each(shapes)):
        values[size[:2]].add(size.size)
    return [frozenset(s for s in _each(shapes) if len(values[s[:2]]) > 1) for shapes in own]


def is_of_batch(sizes: Iterable[Size]) -> bool:
    """Whether no size is of another dimension than the first, as the number of examples is."""
    return not any(size.dimension for size in sizes)


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
