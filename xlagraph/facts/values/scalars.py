"""Single numbers: parameters, constants, and values that are one number at all their places."""

from __future__ import annotations

from typing import TYPE_CHECKING

from xlagraph.cause.editor import is_input
from xlagraph.hlo.shapes import read_shape

if TYPE_CHECKING:
    from collections.abc import Collection

    from xlagraph.graph import Module


def is_scalar_input(module: Module, i: int) -> bool:
    """Whether an instruction is a number that the entry computation takes in."""
    entry = module.entry_computation
    is_inside = entry.start <= i < entry.stop
    return is_inside and is_input(module, i) and module.shapes[i].endswith("[]")


SPREADS = frozenset({"bitcast", "broadcast", "convert", "copy", "reshape", "transpose"})
"""What gives a value another form, and leaves each number as it is."""


def is_number(module: Module, value: int) -> bool:
    """Whether a value is one number, or one number at all its places."""
    while not module.shapes[value].partition("{")[0].endswith("[]"):
        if module.opcodes[value] not in SPREADS:
            # JAX writes the numbers beside weights of one element as arrays of that shape
            is_constant = module.opcodes[value] == "constant"
            return is_constant and read_shape(module.shapes[value]).elements == 1
        (value,) = module.operands[value]
    return True


def through(module: Module, value: int, opcodes: Collection[str]) -> int:
    """What a value is made of by operations of these opcodes, which take in one value each."""
    while module.opcodes[value] in opcodes:
        (value,) = module.operands[value]
    return value


def is_one(module: Module, value: int) -> bool:
    """Whether a value is the constant 1, spread or converted."""
    value = through(module, value, SPREADS)
    return module.opcodes[value] == "constant" and module.payloads[value] == "1"


def without_one(module: Module, value: int) -> int:
    """What a product with the constant 1 multiplies; any other value itself."""
    if module.opcodes[value] == "multiply":
        x, y = module.operands[value]
        return y if is_one(module, x) else x if is_one(module, y) else value
    return value


def unspread(module: Module, value: int) -> int:
    """What a value spreads or converts; itself if it does not."""
    return through(module, value, ("broadcast", "reshape", "convert"))


def number_of(module: Module, value: int) -> int | None:
    """The number that a value spreads or converts: an input, or a constant; else None."""
    value = unspread(module, value)
    is_constant = module.opcodes[value] == "constant" and module.shapes[value].endswith("[]")
    return value if is_constant or is_scalar_input(module, value) else None
