"""What passes optimization barriers and tuples unchanged."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Sequence

    from xlagraph.graph import Attributes, Module

BARRIER = "opt-barrier"


class Columns(Protocol):
    """A module, or an editor of one."""

    @property
    def opcodes(self) -> Sequence[str]:
        """The opcode of each instruction."""

    @property
    def operands(self) -> Sequence[tuple[int, ...]]:
        """The operands of each instruction."""

    @property
    def attributes(self) -> Sequence[Attributes]:
        """The attributes of each instruction."""


def element(module: Columns, i: int) -> int | None:
    """What a get-tuple-element picks out of a tuple, through optimization barriers."""
    index = module.attributes[i].get("index")
    source, _ = _below_barriers(module, i)
    if module.opcodes[source] != "tuple" or index is None or not index.isdecimal():
        return None
    position = int(index)
    parts = module.operands[source]
    return parts[position] if position < len(parts) else None


def passed_values(module: Columns) -> dict[int, int]:
    """What is picked out of a tuple, or of a barrier on one, to the value that it is."""
    found: dict[int, int] = {}
    for i, opcode in enumerate(module.opcodes):
        part = element(module, i) if opcode == "get-tuple-element" else None
        if part is not None:
            found[i] = found.get(part, part)
    return found


def past_tuples(module: Module) -> tuple[Module, dict[int, int]]:
    """The module with what is picked out of a tuple taking in that value alone.

    Where the value stands in the tuple, and what else does, no longer counts. Returned with it:
    how many barriers each such get-tuple-element lies behind.
    """
    operands = list(module.operands)
    depths: dict[int, int] = {}
    for i, opcode in enumerate(module.opcodes):
        part = element(module, i) if opcode == "get-tuple-element" else None
        if part is not None:
            operands[i] = (part,)
            _, depths[i] = _below_barriers(module, i)
    return replace(module, operands=operands), depths


def _below_barriers(module: Columns, i: int) -> tuple[int, int]:
    """What a get-tuple-element's operand stands on, and through how many barriers."""
    source, barriers = module.operands[i][0], 0
    while module.opcodes[source] == BARRIER:
        source, barriers = module.operands[source][0], barriers + 1
    return source, barriers
