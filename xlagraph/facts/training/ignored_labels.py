"""The label that a loss ignores: labels that are compared with the classes, and with one number."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from xlagraph.facts.values.scalars import SPREADS, through

if TYPE_CHECKING:
    from xlagraph.graph import Module

INTEGERS = frozenset({"s8", "s16", "s32", "s64", "u8", "u16", "u32", "u64"})


class IgnoredLabel(NamedTuple):
    """The label that a loss or its derivative ignores."""

    number: int
    """The constant that labels are compared with."""
    classes: int
    """All classes, but for the one that is ignored, as labels are compared with them."""
    every: int
    """All classes, as they are counted up; `classes` itself where no class is ignored."""
    left_out: tuple[int, ...]
    """What puts a number that no label has in the place of the class that is ignored."""


def ignored_labels(module: Module) -> list[IgnoredLabel]:
    """The labels that losses ignore: those that count differ from it, and are among the classes.

    torch_xla makes ones of the labels by comparing them with all classes, of which it takes out the
    one that is ignored, if that is one of them.
    """
    classes: dict[int, list[int]] = {}
    found = []
    for i, opcode in enumerate(module.opcodes):
        if opcode != "compare":
            continue
        one, other = (through(module, o, SPREADS) for o in module.operands[i])
        direction = module.attributes[i].get("direction")
        if direction == "EQ" and _counted(module, other) >= 0:
            classes.setdefault(one, []).append(other)
        if direction == "NE" and _is_number(module, other):
            found.append((one, other))
    return list(_paired(module, found, classes))


def _paired(
    module: Module, numbers: list[tuple[int, int]], classes: dict[int, list[int]]
) -> list[IgnoredLabel]:
    """Numbers with the classes of the same labels: as many of both, one for a derivative."""
    found = []
    for label, known in classes.items():
        own = [number for one, number in numbers if one == label]
        if len(own) == len(known):
            pairs = zip(own, known, strict=True)
            found += [one for one in (_label(module, *pair) for pair in pairs) if one]
    return found


def _label(module: Module, number: int, classes: int) -> IgnoredLabel | None:
    every = _counted(module, classes)
    if every == classes:
        return IgnoredLabel(number, classes, every, ())
    choice, *_ = module.operands[classes]
    removed = through(module, module.operands[choice][1], SPREADS)
    is_one = module.payloads[removed] == module.payloads[number]
    return IgnoredLabel(number, classes, every, (classes, choice)) if is_one else None


def _counted(module: Module, i: int) -> int:
    """The classes as they are counted up, of which one may be replaced; -1 for other values."""
    if module.opcodes[i] == "iota":
        return i
    if module.opcodes[i] != "select":
        return -1
    choice, absent, every = module.operands[i]
    if module.opcodes[choice] != "compare" or module.opcodes[every] != "iota":
        return -1
    one, other = module.operands[choice]
    is_one = one == every and module.attributes[choice].get("direction") == "EQ"
    is_absent = all(_is_number(module, through(module, n, SPREADS)) for n in (absent, other))
    return every if is_one and is_absent else -1


def _is_number(module: Module, i: int) -> bool:
    is_integer = module.shapes[i].partition("[")[0] in INTEGERS
    return (
        is_integer and module.opcodes[i] == "constant" and module.payloads[i].lstrip("-").isdigit()
    )
