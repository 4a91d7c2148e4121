"""Numbers that follow from the groups of a collective: what a mean over them divides by."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from xlagraph.canon.spelling import canonical_attribute
from xlagraph.facts.values.scalars import SPREADS, through

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

    from xlagraph.graph import Module

_GROUP = re.compile(r"\{([\d,]+)\}")
_HANDS_ON = SPREADS | {"get-tuple-element", "all-gather-done", "all-reduce-done"}


def group_size(module: Module, collective: int) -> int | None:
    """How many take part in each group of a collective; None where groups differ in size."""
    text = module.attributes[collective].get("replica_groups") or ""
    spelled = canonical_attribute("replica_groups", text) if text else ""
    sizes = {one[1].count(",") + 1 for one in _GROUP.finditer(spelled.replace(" ", ""))}
    return sizes.pop() if len(sizes) == 1 else None


def divides_by_size(module: Module, collectives: Collection[int], number: int) -> bool:
    """Whether all that a constant does is to divide what collectives give by their groups' size.

    Or to multiply by the inverse.
    """
    try:
        value = float(module.payloads[number])
    except (KeyError, ValueError):
        return False
    uses = list(_uses(module, number))
    return bool(uses) and all(
        collective in collectives
        and (size := group_size(module, collective)) is not None
        and _is_of(value, size, module.opcodes[user])
        for user, collective in uses
    )


def _is_of(value: float, size: int, opcode: str) -> bool:
    if opcode == "divide":
        return value == size
    return opcode == "multiply" and abs(value * size - 1) < 1e-6


def _uses(module: Module, number: int) -> Iterator[tuple[int, int]]:
    """The users of a number, spread or converted, and what the other operand of each comes from."""
    for user in module.users[number]:
        if module.opcodes[user] in SPREADS:
            yield from _uses(module, user)
            continue
        others = [o for o in module.operands[user] if o != number]
        yield user, through(module, others[0], _HANDS_ON) if others else -1
