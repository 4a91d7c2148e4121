"""Layers that one module has in place of others of the same family."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, NamedTuple

from xlagraph.cause.slices import called_only_by
from xlagraph.facts.layers.cross_entropy import cross_entropies
from xlagraph.facts.layers.gelus import gelus
from xlagraph.facts.layers.means import means
from xlagraph.facts.layers.norms import norms
from xlagraph.facts.layers.pooling import pools
from xlagraph.facts.layers.rotary import rotations
from xlagraph.facts.layers.statistics import statistics

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from xlagraph.diff import Diff
    from xlagraph.facts.layers.layer import Layer
    from xlagraph.graph import Module

POOLING, GELU, ROTARY = "pooling", "gelu", "rotary"
NORM, MEAN, CROSS_ENTROPY, STATISTICS = "norm", "mean", "cross entropy", "statistics"
FAMILIES: Mapping[str, Callable[[Module], list[Layer]]] = {
    POOLING: pools,
    GELU: gelus,
    ROTARY: rotations,
    NORM: norms,
    CROSS_ENTROPY: cross_entropies,
    MEAN: means,
    STATISTICS: statistics,
}


class Swap(NamedTuple):
    """Layers of A that B has others for."""

    family: str
    a: str
    b: str
    in_a: frozenset[int]
    """What the layers of this name are made of in A."""
    in_b: frozenset[int]


def swapped(diff: Diff) -> list[Swap]:
    """The layers that stand for others, by name; each family alone."""
    found = []
    for family, layers in FAMILIES.items():
        swap = _swap(diff, family, layers)
        found += [swap] if swap else []
    return found


def _swap(diff: Diff, family: str, layers: Callable[[Module], list[Layer]]) -> Swap | None:
    """One name in A for one in B: as often, or wherever either stands.

    Derivatives of what is turned are turned as well, and are written in other ways.
    """
    a, b = layers(diff.a), layers(diff.b)
    names = Counter(layer.name for layer in a), Counter(layer.name for layer in b)
    lost, gained = names[0] - names[1], names[1] - names[0]
    if len(lost) != 1 or len(gained) != 1:
        return None
    ((one, less),), ((other, more),) = lost.items(), gained.items()
    is_everywhere = other not in names[0] and one not in names[1]
    if less != more and not is_everywhere:
        return None
    return Swap(family, one, other, _made_of(diff.a, a, one), _made_of(diff.b, b, other))


def _made_of(module: Module, layers: Sequence[Layer], name: str) -> frozenset[int]:
    """What layers of a name are made of, and what that calls."""
    members = frozenset[int]().union(*(one.members for one in layers if one.name == name))
    return members.union(called_only_by(module, members))
