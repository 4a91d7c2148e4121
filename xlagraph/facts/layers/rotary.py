"""Rotary embeddings: pairs of features that are turned, and which features make a pair."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from xlagraph.facts.layers.layer import Layer, sizes_of
from xlagraph.facts.values.scalars import SPREADS, without_one

if TYPE_CHECKING:
    from xlagraph.graph import Module

HALVES, NEIGHBOURS = "halves", "neighbours"
_SPAN = re.compile(r"\[(\d+):(\d+)(?::(\d+))?\]")


def rotations(module: Module) -> list[Layer]:
    """What turns pairs of features, by which features are paired."""
    return [
        layer
        for i, opcode in enumerate(module.opcodes)
        if opcode == "concatenate" and (layer := _rotation(module, i))
    ]


def _rotation(module: Module, joined: int) -> Layer | None:
    """Two values, each a sum of two products with the two parts of one value, put together."""
    if len(module.operands[joined]) != 2:
        return None
    members, parts = {joined}, []
    for value in module.operands[joined]:
        found = _turned(module, value, members)
        if found is None:
            return None
        parts.append(found)
    name = _paired(module, *sorted(parts[0])) if parts[0] == parts[1] else ""
    return Layer(name, frozenset(members)) if name else None


def _turned(module: Module, value: int, members: set[int]) -> frozenset[int] | None:
    """The two slices of which a value is a sum of products; what lies between is noted."""
    total = _through(module, value, members)
    if module.opcodes[total] not in ("add", "subtract"):
        return None
    members.add(total)
    found = [_factor(module, term, members) for term in module.operands[total]]
    slices = frozenset(one for one in found if one is not None)
    return slices if len(slices) == 2 else None


def _factor(module: Module, term: int, members: set[int]) -> int | None:
    """The slice that a term multiplies by something else."""
    product = _through(module, term, members)
    while (value := without_one(module, product)) != product:
        members.add(product)
        product = _through(module, value, members)
    if module.opcodes[product] != "multiply":
        return None
    members.add(product)
    for factor in module.operands[product]:
        own = set[int]()
        value = _through(module, factor, own)
        if module.opcodes[value] == "slice":
            members |= {value, *own}
            return value
    return None


def _through(module: Module, value: int, members: set[int]) -> int:
    while module.opcodes[value] in SPREADS | {"negate"}:
        members.add(value)
        (value,) = module.operands[value]
    return value


def _paired(module: Module, one: int, other: int) -> str:
    """How two slices share one value between them, along one axis; empty if they do not."""
    whole = module.operands[one][0]
    if module.operands[other][0] != whole:
        return ""
    sizes = sizes_of(module, whole)
    axes = [
        (size, x, y)
        for size, x, y in zip(sizes, _spans(module, one), _spans(module, other), strict=False)
        if x != y
    ]
    if len(axes) != 1:
        return ""
    ((size, *spans),) = axes
    spans.sort()
    half = size // 2
    if size > 2 and spans == [(0, half, 1), (half, size, 1)]:
        return HALVES
    is_pair = size == 2 and spans == [(0, 1, 1), (1, 2, 1)]
    steps = [(start, step) for start, _, step in spans]
    return NEIGHBOURS if is_pair or steps == [(0, 2), (1, 2)] else ""


def _spans(module: Module, i: int) -> list[tuple[int, int, int]]:
    spans = _SPAN.findall(module.attributes[i].get("slice") or "")
    return [(int(start), int(stop), int(step or 1)) for start, stop, step in spans]
