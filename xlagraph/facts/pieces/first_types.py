"""Where types of two sides differ first, and what is used there."""

from __future__ import annotations

from typing import TYPE_CHECKING

from xlagraph.facts.values.scalars import SPREADS, is_scalar_input, through

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping

    from xlagraph.cause.case import Case
    from xlagraph.graph import Module


def first_of(case: Case, pairs: Mapping[int, int]) -> dict[int, int]:
    """Those of A's instructions, with B's, that are computed from no others, on neither side.

    What is made of constants alone takes the type of what it is used with, and is none of them.
    """
    closed = case.diff.match.a.closed
    own = {x: y for x, y in pairs.items() if not closed[x]}
    later_a = _computed_from(case.diff.a, own)
    later_b = _computed_from(case.diff.b, set(own.values()))
    return {x: y for x, y in own.items() if x not in later_a and y not in later_b}


def _computed_from(module: Module, values: Collection[int]) -> set[int]:
    later = set[int]()
    for i, operands in enumerate(module.operands):  # operands come before users
        if any(o in values or o in later for o in operands):
            later.add(i)
    return later


def number_used(case: Case, first: Mapping[int, int]) -> tuple[int, int] | None:
    """The number that comes in, of one type on both sides, in which all of these begin.

    It is the value of each of them, in another form, and one side alone converts it.
    """
    a, b = case.diff.a, case.diff.b
    sources = {(through(a, x, SPREADS), through(b, y, SPREADS)) for x, y in first.items()}
    if len(sources) != 1:
        return None
    ((x, y),) = sources
    is_one = case.a.partners[x] == y and a.shapes[x] == b.shapes[y]
    is_number = is_scalar_input(a, x) and is_scalar_input(b, y)
    is_cast = _casts(a, x, first) != _casts(b, y, first.values())
    return (x, y) if is_one and is_number and is_cast else None


def _casts(module: Module, number: int, values: Iterable[int]) -> bool:
    """Whether the number is converted on the way to any of these."""
    for value in values:
        while value != number:
            if module.opcodes[value] == "convert":
                return True
            (value,) = module.operands[value]
    return False
