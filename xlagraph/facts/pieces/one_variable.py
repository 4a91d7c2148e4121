"""Functions of one value, number by number: an activation, or the derivative of one."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from xlagraph.facts.values.opcodes import ELEMENTWISE
from xlagraph.facts.values.scalars import SPREADS, is_number

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from xlagraph.cause.case import Case, SideView
    from xlagraph.graph import Module

TELLING = frozenset({"erf", "tanh", "logistic", "exponential", "exponential-minus-one"})
"""What makes one activation another than the next.

Roots and powers are those of optimizers too, and bounds can be written in many orders.
"""
KEEPS_FORM = TELLING | ELEMENTWISE


@dataclass(slots=True, eq=False)
class Swapped:
    """Functions of one value on both sides that stand for each other and are not alike."""

    of: tuple[int, int]
    ends: set[tuple[int, int]] = field(default_factory=set)
    a: set[int] = field(default_factory=set)
    b: set[int] = field(default_factory=set)


def swapped_functions(case: Case) -> list[Swapped]:
    """Functions of a value that both sides have, used alike, of which each has its own."""
    a, b = case.diff.a, case.diff.b
    variables = _variables(a), _variables(b)
    differing = {change.a for change in case.diff.changes}
    found: dict[tuple[int, int], Swapped] = {}
    for x, y in enumerate(case.diff.match.to_b):
        if y < 0 or len(a.operands[x]) != len(b.operands[y]):
            continue
        for p, q in zip(a.operands[x], b.operands[y], strict=True):
            of = variables[0][p], variables[1][q]
            is_end = variables[0][x] != of[0] and variables[1][y] != of[1]
            is_end = is_end and min(of) >= 0 and p != of[0] and q != of[1]
            if not is_end or case.a.partners[of[0]] != of[1]:
                continue
            inner = _below(a, variables[0], p), _below(b, variables[1], q)
            own = case.a.partners[p] != q or any(_is_own(case.a, i, differing) for i in inner[0])
            if own and a.shapes[p] == b.shapes[q] and _are_unlike(case, inner):
                swap = found.setdefault(of, Swapped(of))
                swap.ends.add((p, q))
                swap.a |= inner[0]
                swap.b |= inner[1]
    every = (one for one in found.values() if _is_one_to_one(one))
    return [one for one in every if _are_unlike(case, (one.a, one.b))]  # not in other places alone


def _is_own(view: SideView, i: int, differing: set[int]) -> bool:
    return view.partners[i] < 0 or i in differing


def _is_one_to_one(one: Swapped) -> bool:
    return len({p for p, _ in one.ends}) == len(one.ends) == len({q for _, q in one.ends})


def with_numbers(module: Module, piece: Collection[int]) -> frozenset[int]:
    """A piece with the numbers that nothing else takes in."""
    found, stack = set(piece), sorted(piece, reverse=True)
    for i in stack:  # grows while it is read
        fresh = {o for o in module.operands[i] if found.issuperset(module.users[o])} - found
        found |= fresh
        stack += sorted(fresh, reverse=True)
    return frozenset(found)


def _are_unlike(case: Case, inner: tuple[set[int], set[int]]) -> bool:
    """Whether each computes a function that the other does not: not one more, but another."""
    one, other = (
        {view.module.opcodes[i] for i in piece} & TELLING
        for view, piece in zip((case.a, case.b), inner, strict=True)
    )
    return bool(one - other and other - one)


def _variables(module: Module) -> Sequence[int]:
    """For each value the one that it is a function of; itself if of none, or of several.

    -1 for a number that is given, at all places of a value, and what is computed from such ones.
    """
    found = list(range(len(module)))
    entry = module.entry_computation
    for i in range(entry.start, entry.stop):
        if not module.operands[i] and is_number(module, i):
            found[i] = -1
        elif module.opcodes[i] in KEEPS_FORM | SPREADS:
            below = {found[o] for o in module.operands[i]} - {-1}
            if not below or (len(below) == 1 and module.opcodes[i] in KEEPS_FORM):
                found[i] = below.pop() if below else -1
    return found


def _below(module: Module, variables: Sequence[int], end: int) -> set[int]:
    """What a function is computed with, down to its variable and its numbers."""
    variable = variables[end]
    found, stack = {end}, [end]
    while stack:
        of = module.operands[stack.pop()]
        fresh = {o for o in of if o != variable and variables[o] == variable} - found
        stack += fresh
        found |= fresh
    return found
