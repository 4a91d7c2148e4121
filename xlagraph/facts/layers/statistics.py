"""Norms by whose values they take their statistics over: one device's, or those of several."""

from __future__ import annotations

from typing import TYPE_CHECKING

from xlagraph.facts.layers.layer import Layer, reduces_by
from xlagraph.facts.values.scalars import SPREADS, is_number, through

if TYPE_CHECKING:
    from xlagraph.graph import Module

OWN, TOGETHER = "own statistics", "statistics over devices"
_ROOTS = ("rsqrt", "sqrt", "power")
_ON_THE_WAY = SPREADS | {
    "all-reduce",
    "clamp",
    "concatenate",
    "get-tuple-element",
    "maximum",
    "slice",
    "subtract",
    "tuple",
}
_WITH_NUMBERS = ("add", "divide", "multiply")
MAX_WAY = 60
"""Instructions between a root and the sums that its variance is made of."""


def statistics(module: Module) -> list[Layer]:
    """The norms that subtract a mean, each with how its variance comes of sums."""
    found = []
    for i, opcode in enumerate(module.opcodes):
        if opcode == "batch-norm-training":
            found.append(Layer(OWN, frozenset({i})))
        elif opcode in _ROOTS and (way := _way(module, i)):
            is_own = all(module.opcodes[k] != "all-reduce" for k in way)
            found.append(Layer(OWN if is_own else TOGETHER, frozenset(way)))
    return found


def _way(module: Module, root: int) -> set[int]:
    """What lies between a root and the sums of the variance that it is of; empty if of another.

    An optimizer's average of squares is an input, and the norm of gradients subtracts no mean.
    """
    way = [root]
    sums, is_centred = [], False
    stack = [module.operands[root][0]]
    for i in stack:  # grows while it is read
        if i in way or is_number(module, i):
            continue
        way.append(i)
        opcode = module.opcodes[i]
        if opcode == "reduce" and reduces_by(module, i, "add"):
            sums.append(i)
            continue
        if not _is_on_the_way(module, i) or len(way) > MAX_WAY:
            return set()
        is_centred = is_centred or (opcode == "subtract" and _is_squared_mean(module, i))
        stack += module.operands[i]
    is_centred = is_centred or any(_is_of_distances(module, i) for i in sums)
    return {*way, *sums} if sums and is_centred else set()


def _is_on_the_way(module: Module, i: int) -> bool:
    """Whether an operation only moves and averages statistics, or takes a square of one."""
    opcode, operands = module.opcodes[i], module.operands[i]
    is_square = opcode == "multiply" and len(set(operands)) == 1
    is_scaled = opcode in _WITH_NUMBERS and any(is_number(module, o) for o in operands)
    return opcode in _ON_THE_WAY or is_square or is_scaled or _is_power(module, i)


def _is_power(module: Module, i: int) -> bool:
    return module.opcodes[i] == "power" and is_number(module, module.operands[i][1])


def _is_squared_mean(module: Module, difference: int) -> bool:
    """Whether what is subtracted is a square."""
    return _is_square(module, through(module, module.operands[difference][1], SPREADS))


def _is_of_distances(module: Module, total: int) -> bool:
    """Whether a sum adds up squares of what something was subtracted from."""
    squared = through(module, module.operands[total][0], SPREADS)
    if not _is_square(module, squared):
        return False
    distance = through(module, module.operands[squared][0], SPREADS)
    return module.opcodes[distance] == "subtract"


def _is_square(module: Module, i: int) -> bool:
    is_product = module.opcodes[i] == "multiply" and len(set(module.operands[i])) == 1
    return is_product or _is_power(module, i)
