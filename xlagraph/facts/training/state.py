"""Tensors that a module takes in and gives back with a new value."""

from __future__ import annotations

from itertools import chain
from typing import TYPE_CHECKING

from xlagraph.cause.editor import is_input

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Sequence

    from xlagraph.graph import Module

STEPS = 8
"""An update is a short formula: its result is this near to what it updates."""
MAX_NEAR = 200
_NUMBERS = ("f16[]", "bf16[]", "f32[]", "f64[]", "s32[]", "s64[]")


def _any(_parameter: int, _output: int) -> bool:
    return True


def state_pairs(
    module: Module,
    inputs: Sequence[int],
    outputs: Collection[int],
    fits: Callable[[int, int], bool] = _any,
) -> list[tuple[int, int]]:
    """Parameters with an output position of equal shape that depends on them, one to one.

    An output that is computed of the parameter itself comes before one that its users lead to.

    `fits`: whether a parameter and an output may belong together.
    """
    values = module.outputs
    free = dict.fromkeys(sorted(outputs))  # in order, and taken out one by one
    of_operand: dict[int, list[int]] = {}
    for k in free:
        for operand in module.operands[values[k]]:
            of_operand.setdefault(operand, []).append(k)
    shapes = {module.shapes[values[k]] for k in free} - {*_NUMBERS}
    pairs = []
    for parameter in inputs:
        if not module.users[parameter] or module.shapes[parameter] not in shapes:
            continue
        near = _near_users(module, parameter)
        own = (k for k in of_operand.get(parameter, ()) if k in free)
        for k in chain(own, free):
            is_alike = module.shapes[values[k]] == module.shapes[parameter]
            is_new = is_alike and values[k] in near and not is_factor(module, parameter, values[k])
            if is_new and fits(parameter, k):
                pairs.append((parameter, k))
                del free[k]
                break
    return pairs


def is_factor(module: Module, parameter: int, value: int) -> bool:
    """Whether a value is the product of this input with another whole tensor: a mask is read."""
    value = _plain(module, value)
    if module.opcodes[value] != "multiply":
        return False
    x, y = (_plain(module, o) for o in module.operands[value])
    others = {x: y, y: x}
    return parameter in others and not module.shapes[others[parameter]].startswith(_NUMBERS)


def _plain(module: Module, i: int) -> int:
    """What a value spreads, converts or gives another shape."""
    while module.opcodes[i] in ("broadcast", "convert", "reshape", "copy", "bitcast"):
        (i,) = module.operands[i]
    return i


def _near_users(module: Module, start: int) -> set[int]:
    """Instructions that depend on `start` within a few steps."""
    found = {start}
    front = [start]
    for _ in range(STEPS):
        front = [u for i in front for u in module.users[i] if u not in found][:MAX_NEAR]
        found.update(front)
    return found


def parameter_number(module: Module, parameter: int) -> int:
    """The number of an entry parameter, -1 for anything else."""
    is_there = parameter >= 0 and is_input(module, parameter)
    return int(module.payloads[parameter]) if is_there else -1
