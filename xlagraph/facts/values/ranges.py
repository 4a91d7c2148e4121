"""Numbers that shift places: in ranges made on the device (torch.triu, torch.tril), or in a roll.

torch.roll becomes a slice of a value that stands twice in a row, from the shift on.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from xlagraph.facts.values.scalars import unspread

if TYPE_CHECKING:
    from collections.abc import Iterator

    from xlagraph.graph import Module

SPREADS = frozenset({"broadcast", "convert", "reshape"})
"""What gives a number to every element, and computes nothing."""
ROLLS = "dynamic-slice"
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


def shifts_roll(module: Module, number: int) -> bool:
    """Whether all that is done with a number is to say from where a value is read around."""
    users = module.users[number]
    return bool(users) and all(_is_roll(module, user, number) for user in users)


def _is_roll(module: Module, i: int, number: int) -> bool:
    doubled, *starts = module.operands[i] or (-1,)
    if module.opcodes[i] != ROLLS or module.opcodes[doubled] != "concatenate":
        return False
    parts = module.operands[doubled]
    if len(parts) != 2 or parts[0] != parts[1]:
        return False
    axes = [str(k) for k, start in enumerate(starts) if start == number]
    along = (module.attributes[doubled].get("dimensions") or "").strip("{}")
    return axes == [along] and _sizes(module, i) == _sizes(module, parts[0])


def _sizes(module: Module, i: int) -> str:
    return module.shapes[i].partition("{")[0]
