"""A layer that is known by its name, and what it is made of."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from xlagraph.canon.labels import bare_shape

if TYPE_CHECKING:
    from collections.abc import Collection

    from xlagraph.graph import Module


class Layer(NamedTuple):
    """Instructions that are one layer."""

    name: str
    members: frozenset[int]


def reduces_by(module: Module, i: int, opcode: str) -> bool:
    """Whether a reduction puts its values together by this operation alone."""
    roots = [module.computations[c].root for c in module.callees.get(i, ())]
    return len(roots) == 1 and module.opcodes[roots[0]] == opcode


def chain(module: Module, i: int, opcodes: Collection[str]) -> list[int]:
    """A value and what it is made of first through operations of these opcodes, as they come."""
    found = [i]
    while module.opcodes[found[-1]] in opcodes:
        found.append(module.operands[found[-1]][0])
    return found


def sizes_of(module: Module, i: int) -> list[int]:
    """The sizes of a value along its dimensions."""
    sizes = bare_shape(module, i).partition("[")[2].rstrip("]")
    return [int(size) for size in sizes.split(",") if size.isdigit()]
