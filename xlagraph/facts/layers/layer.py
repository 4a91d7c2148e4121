"""A layer that is known by its name, and what it is made of."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

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
