"""Ranges made on the device, as those of which torch.triu and torch.tril make their masks."""

from __future__ import annotations

from typing import TYPE_CHECKING

from xlagraph.facts.values.scalars import unspread

if TYPE_CHECKING:
    from collections.abc import Iterator

    from xlagraph.graph import Module

SPREADS = frozenset({"broadcast", "convert", "reshape"})
"""What gives a number to every element, and computes nothing."""
SHIFTS = frozenset({"add", "subtract"})
MAX_STEPS = 6
"""Instructions between a number and the comparison that it shifts."""


def shifts_range(module: Module, number: int) -> bool:
    """Whether a number is only added to ranges that are then compared with ranges, in a mask."""
    shifted = list(_users(module, number))
    compared = [end for i in shifted for end in _users(module, i)]
    return (
        bool(compared)
        and all(_is_shifted_range(module, i) for i in shifted)
        and all(module.opcodes[end] == "compare" for end in compared)
        and all(_is_range(module, o) for end in compared for o in module.operands[end])
    )


def _users(module: Module, i: int) -> Iterator[int]:
    """What computes with a value, beyond what spreads it."""
    front = [i]
    for _ in range(MAX_STEPS):
        users = [user for one in front for user in module.users[one]]
        yield from (user for user in users if module.opcodes[user] not in SPREADS)
        front = [user for user in users if module.opcodes[user] in SPREADS]


def _is_range(module: Module, i: int) -> bool:
    i = unspread(module, i)
    return module.opcodes[i] == "iota" or _is_shifted_range(module, i)


def _is_shifted_range(module: Module, i: int) -> bool:
    """Whether one number is added to a range: what is made of ranges alone is no mask's edge."""
    below = [module.opcodes[unspread(module, o)] for o in module.operands[i]]
    return module.opcodes[i] in SHIFTS and sorted(below) == ["constant", "iota"]
