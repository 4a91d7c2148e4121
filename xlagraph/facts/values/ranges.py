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
    rolled = roll_of(module, i)
    starts = module.operands[i][1:]
    return rolled is not None and [k for k, one in enumerate(starts) if one == number] == [rolled]


def roll_of(module: Module, i: int) -> int | None:
    """The axis along which a value is rolled: it stands twice in a row, and is read from a place.

    None of what is no roll, or does not begin at 0 along the other axes.
    """
    doubled, *starts = module.operands[i] or (-1,)
    if module.opcodes[i] != ROLLS or not is_doubled(module, doubled):
        return None
    (part, _), (along,) = module.operands[doubled], axes_of(module, doubled)
    others = (module.payloads.get(start) for k, start in enumerate(starts) if k != along)
    is_roll = _sizes(module, i) == _sizes(module, part) and all(one == "0" for one in others)
    return along if is_roll else None


def is_doubled(module: Module, i: int) -> bool:
    """Whether a value is put behind itself, along one axis."""
    parts = module.operands[i]
    is_twice = len(parts) == 2 and parts[0] == parts[1] and module.opcodes[i] == "concatenate"
    return is_twice and len(axes_of(module, i)) == 1


def axes_of(module: Module, i: int) -> list[int]:
    """The axes that an instruction's `dimensions` name."""
    text = (module.attributes[i].get("dimensions") or "").strip("{}")
    return [int(axis) for axis in text.split(",") if axis.strip().isdecimal()]


def _sizes(module: Module, i: int) -> str:
    return module.shapes[i].partition("{")[0]
