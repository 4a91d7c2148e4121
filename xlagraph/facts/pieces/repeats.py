"""Expressions that stand more often on one side than on the other."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from xlagraph.canon.labels import Interner
from xlagraph.canon.structure import expression_number
from xlagraph.facts.pieces.pieces import open_edges
from xlagraph.facts.values.expressions import counts_each_time

if TYPE_CHECKING:
    from xlagraph.cause.case import Case, SideView


@dataclass(frozen=True, slots=True)
class Repeats:
    """Copies of values that the other side has once, and pairs that use such copies."""

    copies_a: frozenset[int]
    copies_b: frozenset[int]
    users: tuple[tuple[int, int], ...]

    @property
    def a(self) -> frozenset[int]:
        """What they account for in A."""
        return self.copies_a | {x for x, _ in self.users}

    @property
    def b(self) -> frozenset[int]:
        """What they account for in B."""
        return self.copies_b | {y for _, y in self.users}


NO_REPEATS = Repeats(frozenset(), frozenset(), ())


def repeats(case: Case) -> Repeats:
    """An expression stands twice where the other module has it once: equal after CSE.

    Not where the other module uses another value in its place: there more differs than copies.
    """
    changed = case.changed_alone("operands")
    if not (changed or _is_lone_in_entry(case.a) or _is_lone_in_entry(case.b)):
        return NO_REPEATS
    a, b = case.diff.a, case.diff.b
    numbers_a, numbers_b = _value_numbers(case)
    users = [
        (x, y)
        for x, y in changed
        if x in numbers_a
        and y in numbers_b
        and [numbers_a[o] for o in a.operands[x]] == [numbers_b[o] for o in b.operands[y]]
    ]
    known_a, known_b = set(numbers_a.values()), set(numbers_b.values())
    other = [e for e in open_edges(case) if numbers_a.get(e.p) != numbers_b.get(e.q)]
    used_a, used_b = {e.p for e in other}, {e.q for e in other}
    return Repeats(
        frozenset(x for x in case.a.open_lone() if numbers_a.get(x) in known_b) - used_a,
        frozenset(y for y in case.b.open_lone() if numbers_b.get(y) in known_a) - used_b,
        tuple(users),
    )


def _is_lone_in_entry(view: SideView) -> bool:
    """Whether the entry computation has instructions of its own that nothing claimed."""
    entry = view.module.entry_computation
    return any(entry.start <= i < entry.stop for i in view.open_lone())


def _value_numbers(case: Case) -> tuple[dict[int, int], dict[int, int]]:
    """Numbers of values: equal where the same expression takes the same paired parameters."""
    interner = Interner()
    return _numbered(case.a, interner), _numbered(case.b, interner)


def _numbered(view: SideView, interner: Interner) -> dict[int, int]:
    module, partners = view.module, view.partners
    labels = list(view.matched.labels)
    entry = module.entry_computation
    for p in entry.parameters:
        pair = view.ab(p, partners[p])
        labels[p] = -1 - interner.number(("parameter", *pair))  # no instruction's label
    numbers: dict[int, int] = {}
    for i in range(entry.start, entry.stop):
        numbers[i] = expression_number(
            module, i, labels[i], numbers, view.matched.computations, interner
        )
        if counts_each_time(module, i):
            numbers[i] = interner.number(("once", view.is_a, i))
    return numbers
