"""Pooling: windows of which each gives its largest value, or its mean."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from xlagraph.facts.layers.layer import Layer, chain, reduces_by
from xlagraph.facts.values.scalars import SPREADS, number_of, through

if TYPE_CHECKING:
    from xlagraph.graph import Module

MAX_POOL, AVG_POOL = "max_pool", "avg_pool"
_FIELD = re.compile(r"(size|pad)=(\S+?)[ }]")


def pools(module: Module) -> list[Layer]:
    """The poolings of a module, derivatives left out; of one number each beside larger ones."""
    places = [i for i, opcode in enumerate(module.opcodes) if opcode == "reduce-window"]
    found = [i for i in places if len(module.operands[i]) == 2 and _is_pooling(module, i)]
    is_pooled = any(max(_sizes(module, i)) > 1 for i in found)
    return [layer for i in found if is_pooled and (layer := _pool(module, i))]


def _sizes(module: Module, i: int) -> list[int]:
    """The window's size along each axis."""
    return [int(size) for size in _window(module, i).get("size", "1").split("x")]


def _window(module: Module, i: int) -> dict[str, str]:
    """The window's size and padding, as written."""
    return dict(_FIELD.findall((module.attributes[i].get("window") or "") + " "))


def _is_pooling(module: Module, i: int) -> bool:
    """Whether windows are padded alike on both sides, if at all: no running sum or maximum."""
    pads = [pad.split("_") for pad in _window(module, i).get("pad", "").split("x") if pad]
    is_even = all(abs(int(low) - int(high)) <= 1 for low, high in pads)
    spans = zip(_sizes(module, i), pads, strict=False)
    return is_even and all(2 * int(low) <= size for size, (low, _) in spans)


def _pool(module: Module, i: int) -> Layer | None:
    own = {o for value in module.operands[i] for o in _padded(module, value)}
    if _is_power(module, module.operands[i][0]):
        return None
    if reduces_by(module, i, "maximum"):
        return Layer(MAX_POOL, frozenset({i, *own}))
    if not reduces_by(module, i, "add"):
        return None
    for user in module.users[i]:
        over = module.operands[user][-1]
        if module.opcodes[user] == "divide" and over != i and _is_count(module, over):
            divisor = chain(module, over, SPREADS)
            return Layer(AVG_POOL, frozenset({i, user, *own, *divisor}))
    return None


def _padded(module: Module, value: int) -> set[int]:
    """What pads a value, the number at its edges included."""
    found = set[int]()
    while module.opcodes[value] == "pad":
        found |= {value, module.operands[value][1]}
        value = module.operands[value][0]
    return found | ({value} if module.opcodes[value] == "constant" else set())


def _is_power(module: Module, value: int) -> bool:
    """Whether powers are pooled, as by a norm of each window."""
    while module.opcodes[value] == "pad":
        value = module.operands[value][0]
    operands = module.operands[value]
    is_square = module.opcodes[value] == "multiply" and operands[0] == operands[1]
    return module.opcodes[value] == "power" or is_square


def _is_count(module: Module, over: int) -> bool:
    """Whether a divisor is one number, or how many values each window has."""
    if number_of(module, over) is not None:
        return True
    value = through(module, over, SPREADS)
    if module.opcodes[value] != "reduce-window":
        return False
    ones = module.operands[value][0]
    while module.opcodes[ones] in (*SPREADS, "pad"):
        ones = module.operands[ones][0]
    return module.opcodes[ones] == "constant"
