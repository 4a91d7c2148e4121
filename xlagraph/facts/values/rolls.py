"""What torch.roll becomes: a slice of a value that stands twice in a row, from the shift on."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from xlagraph.graph import Module

SLICE = "dynamic-slice"


def shifts_roll(module: Module, number: int) -> bool:
    """Whether all that is done with a number is to say from where a value is read around."""
    users = module.users[number]
    return bool(users) and all(_is_roll(module, user, number) for user in users)


def _is_roll(module: Module, i: int, number: int) -> bool:
    doubled, *starts = module.operands[i] or (-1,)
    if module.opcodes[i] != SLICE or module.opcodes[doubled] != "concatenate":
        return False
    parts = module.operands[doubled]
    if len(parts) != 2 or parts[0] != parts[1]:
        return False
    axes = [str(k) for k, start in enumerate(starts) if start == number]
    along = (module.attributes[doubled].get("dimensions") or "").strip("{}")
    return axes == [along] and _sizes(module, i) == _sizes(module, parts[0])


def _sizes(module: Module, i: int) -> str:
    return module.shapes[i].partition("{")[0]
