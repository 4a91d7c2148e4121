"""Which parameters of the model a graph takes in, and which it trains, by their names."""

from __future__ import annotations

from itertools import permutations
from typing import TYPE_CHECKING, NamedTuple

from xlagraph.tensors import Role, Tensor

if TYPE_CHECKING:
    from collections.abc import Iterable

    from xlagraph.runs.graphs.captured import CapturedGraph

Names = frozenset[Tensor]


class Weights(NamedTuple):
    """The parameters of the model that a graph takes in, and those that it also gives out anew."""

    read: Names
    trained: Names


def weights_of(graph: CapturedGraph) -> Weights:
    """The weights of one graph; an output without a name counts by the input that it replaces."""
    context = graph.context()
    read = _parameters(context.parameters.values())
    named = context.outputs.keys()
    nameless = (p for p, places in graph.sketch.replaced if named.isdisjoint(places))
    renewed = (context.parameters[p] for p in nameless if p in context.parameters)
    return Weights(read, read & _parameters((*context.outputs.values(), *renewed)))


def used_weights(graph: CapturedGraph) -> Weights:
    """The weights of one graph that it computes with, other than to update them."""
    read, trained = weights_of(graph)
    parameters = graph.context().parameters
    idle = _parameters(parameters[p] for p in graph.sketch.idle if p in parameters)
    return Weights(read - idle, trained - idle)


def weights_by_digest(graphs: Iterable[CapturedGraph]) -> dict[str, Weights]:
    """Those used, by digest; equal sets are one object, so that comparing them costs nothing."""
    known: dict[Weights, Weights] = {}
    found = {}
    for graph in graphs:
        one = used_weights(graph)
        found[graph.record.digest] = known.setdefault(one, one)
    return found


def trains_new(graph: CapturedGraph, other: CapturedGraph) -> bool:
    """Whether a graph trains parameters that another one does not even take in."""
    return bool(weights_of(graph).trained - weights_of(other).read)


def keeps_new_gradients(graph: CapturedGraph, other: CapturedGraph) -> bool:
    """Whether a graph gives out gradients of tensors of which another one gives out none."""
    return bool(gradients_of(graph) - gradients_of(other))


def gradients_of(graph: CapturedGraph) -> Names:
    """The gradients that a graph gives out, by name."""
    return frozenset(t for t in graph.context().outputs.values() if t.role is Role.GRADIENT)


def taken_gradients(graph: CapturedGraph) -> Names:
    """The gradients that a graph takes in, by name."""
    return frozenset(t for t in graph.context().parameters.values() if t.role is Role.GRADIENT)


def own_weights(graphs: Iterable[CapturedGraph]) -> Names:
    """All that is trained, where several graphs train parameters of their own; else nothing.

    Adapters of one model are such: none takes in what another one trains.
    """
    updates = {one for one in map(weights_of, graphs) if one.trained}
    if len({one.trained for one in updates}) < 2:
        return frozenset()
    pairs = permutations(updates, 2)
    if any(one.trained != other.trained and one.trained & other.read for one, other in pairs):
        return frozenset()
    return frozenset[Tensor]().union(*(one.trained for one in updates))


def _parameters(tensors: Iterable[Tensor]) -> Names:
    return frozenset(t for t in tensors if t.role is Role.PARAMETER)
