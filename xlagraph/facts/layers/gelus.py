"""GELU, exact or by its approximation with tanh, also where its numbers are inputs."""

from __future__ import annotations

from itertools import product
from math import pi, sqrt
from typing import TYPE_CHECKING

from xlagraph.canon.labels import bare_shape
from xlagraph.facts.layers.layer import Layer
from xlagraph.facts.values.evaluated import FORMS, OPENED, are_equal, function, points
from xlagraph.facts.values.functions import KNOWN

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from xlagraph.facts.values.evaluated import Function
    from xlagraph.graph import Module

GELU, APPROXIMATE = "gelu(x)", "gelu(x, approximate='tanh')"
OF: dict[str, tuple[str, Sequence[float]]] = {
    "erf": (GELU, (sqrt(2), sqrt(0.5), 0.5, 1.0)),
    "tanh": (APPROXIMATE, (sqrt(2 / pi), 0.044715, 0.5, 3.0, 1.0)),
}
"""The operation that each form rests on, its name, and what a number that is an input may be."""
MAX_ANCHORS = 200
"""More are the gates of a recurrent network, one for each of its steps."""
MAX_NUMBERS = 4
MAX_UP = 4
MAX_BELOW = 24
FIRST = 3
"""Points that rule most numbers out."""


def gelus(module: Module) -> list[Layer]:
    """The GELUs of a module."""
    anchors = [i for i, opcode in enumerate(module.opcodes) if opcode in OF]
    if not 0 < len(anchors) <= MAX_ANCHORS:
        return []
    leaves = {i: i for i in range(len(module)) if _is_number_in(module, i)}
    found = (_gelu(module, i, leaves) for i in anchors)
    return [layer for layer in found if layer]


def _gelu(module: Module, anchor: int, leaves: Mapping[int, int]) -> Layer | None:
    name, numbers = OF[module.opcodes[anchor]]
    below = _below(module, anchor)
    for root in _above(module, anchor):
        for x in sorted(below, reverse=True):
            of = function(module, root, {**leaves, x: x})
            if of and _is_of(module, of, x, name, numbers):
                return Layer(name, of.read | {root})
    return None


def _is_number_in(module: Module, i: int) -> bool:
    return module.opcodes[i] == "parameter" and bare_shape(module, i).endswith("[]")


def _above(module: Module, anchor: int) -> Iterator[int]:
    """What is computed from a value number by number, nearest first."""
    level, shape = [anchor], bare_shape(module, anchor)
    for _ in range(MAX_UP):
        users = {u for i in level for u in module.users[i] if module.opcodes[u] in OPENED}
        level = sorted(u for u in users if bare_shape(module, u) == shape)
        yield from level


def _below(module: Module, i: int) -> set[int]:
    """What a value is computed from number by number, what that ends in included."""
    found, stack = set[int](), [i]
    for k in stack:  # grows while it is read
        if module.opcodes[k] in OPENED | FORMS and len(stack) < MAX_BELOW:
            fresh = {*module.operands[k]} - found
            found |= fresh
            stack += sorted(fresh, reverse=True)
    return found


def _is_of(module: Module, of: Function, x: int, name: str, numbers: Sequence[float]) -> bool:
    """Whether a function of x is the one of this name, whatever its numbers that are inputs are."""
    given = [k for k in of.variables if _is_number_in(module, of.variables[k])]
    keys = [k for k in of.variables if k not in given]
    if [of.variables[k] for k in keys] != [x] or len(given) > MAX_NUMBERS:
        return False
    tried = points(keys)
    row = [KNOWN[name](point[keys[0]]) for point in tried]
    for values in product(numbers, repeat=len(given)):
        known = dict(zip(given, values, strict=True))
        first = [of.at({**known, **point}) for point in tried[:FIRST]]
        if any(abs(one - other) > 1e-3 for one, other in zip(first, row, strict=False)):
            continue
        if are_equal(row, [of.at({**known, **point}) for point in tried]):
            return True
    return False
