"""Numbers that follow from the groups of a collective: what a mean over them divides by."""

from __future__ import annotations

import math
import re
from typing import TYPE_CHECKING, NamedTuple

from xlagraph.canon.spelling import canonical_attribute
from xlagraph.facts.values.scalars import SPREADS, through

if TYPE_CHECKING:
    from collections.abc import Iterator

    from xlagraph.graph import Module

_GROUP = re.compile(r"\{([\d,]+)\}")
SUMS = frozenset({"all-reduce", "all-reduce-start", "reduce-scatter"})
"""What adds up over devices, if what it applies adds."""
_HANDS_ON = SPREADS | {"get-tuple-element", "all-gather-done", "all-reduce-done"}


def group_size(module: Module, collective: int) -> int | None:
    """How many take part in each group of a collective; None where groups differ in size."""
    text = module.attributes[collective].get("replica_groups") or ""
    spelled = canonical_attribute("replica_groups", text) if text else ""
    sizes = {one[1].count(",") + 1 for one in _GROUP.finditer(spelled.replace(" ", ""))}
    return sizes.pop() if len(sizes) == 1 else None


class Quotient(NamedTuple):
    """A sum over devices, or what it adds up, divided by the number of devices in its groups."""

    i: int
    place: int
    """That of the number among its operands."""
    number: int
    """The constant, before it is spread."""


def means_over_groups(module: Module, collective: int) -> list[Quotient]:
    """What makes a mean of a sum over groups of one size: behind it, or before it."""
    size = group_size(module, collective)
    if size is None:
        return []
    (given, *more) = module.operands[collective]
    before = [] if more else [through(module, given, SPREADS)]
    around = [(i, None) for i in before] + list(_uses(module, collective))
    return [one for i, value in around if (one := _quotient(module, i, value, size))]


def _quotient(module: Module, i: int, value: int | None, size: int) -> Quotient | None:
    opcode, operands = module.opcodes[i], module.operands[i]
    for place in {"divide": (1,), "multiply": (0, 1)}.get(opcode, ()):
        number = through(module, operands[place], SPREADS)
        is_of_it = value in (None, operands[1 - place])
        if is_of_it and _divides(module, number, size, opcode):
            return Quotient(i, place, number)
    return None


class Mean(NamedTuple):
    """A value divided by the number of devices that a sum of it runs over."""

    divided: int
    collective: int
    size: int


def divisor_of_mean(module: Module, value: int, user: int | None) -> Mean | None:
    """What a division makes a mean of: a sum over devices behind it (its `user`), or before it."""
    if module.opcodes[value] not in ("divide", "multiply") or len(module.operands[value]) != 2:
        return None
    for place in (0, 1) if module.opcodes[value] == "multiply" else (0,):
        divided = module.operands[value][place]
        number = through(module, module.operands[value][1 - place], SPREADS)
        for collective in (through(module, divided, _HANDS_ON), user):
            if collective is None or module.opcodes[collective] not in SUMS:
                continue
            size = _devices(module, collective)
            if size > 1 and _divides(module, number, size, module.opcodes[value]):
                return Mean(divided, collective, size)
    return None


def _divides(module: Module, number: int, size: int, opcode: str) -> bool:
    try:
        return _is_of(float(module.payloads[number].strip("{ }")), size, opcode)
    except (KeyError, ValueError):
        return False


def _devices(module: Module, collective: int) -> int:
    """How many devices a sum runs over: those of a group, or all that the header asks for."""
    if not _adds(module, collective):
        return 0
    size = group_size(module, collective)
    if size is not None:
        return size
    groups = (module.attributes[collective].get("replica_groups") or "{}").replace(" ", "")
    fields = module.header_fields
    counts = [fields.get(key, "1") for key in ("replica_count", "num_partitions")]
    if groups not in ("{}", "{{}}") or not all(text.isdecimal() for text in counts):
        return 0
    return math.prod(map(int, counts))


def _adds(module: Module, collective: int) -> bool:
    roots = [module.computations[c].root for c in module.callees.get(collective, ())]
    return bool(roots) and all(module.opcodes[root] == "add" for root in roots)


def _is_of(value: float, size: int, opcode: str) -> bool:
    if opcode == "divide":
        return value == size
    return opcode == "multiply" and abs(value * size - 1) < 1e-6


def _uses(module: Module, value: int) -> Iterator[tuple[int, int]]:
    """The users of a value that is handed on, each with the form that it takes in."""
    for user in module.users[value]:
        if module.opcodes[user] in _HANDS_ON:
            yield from _uses(module, user)
        else:
            yield user, value
