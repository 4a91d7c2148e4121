"""Numbers that count elements: what a mean divides by, and its gradient multiplies with."""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import combinations
from typing import TYPE_CHECKING

from xlagraph.facts.shapes.sizes import changed_sizes
from xlagraph.facts.values.rounding import format_of
from xlagraph.hlo.shapes import read_shape

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping

    from xlagraph.cause.case import Case
    from xlagraph.graph import Module

MAX_RANK = 8
"""Dimensions of a shape whose products are looked at."""
MAX_STEPS = 8
"""Instructions between a sum and where its mean is taken."""
TOLERANCE = 1e-6
"""Relative, for what was computed in single precision or better."""
FORMS: tuple[Callable[[int], float], ...] = (
    lambda n: n,
    lambda n: n / 2,
    lambda n: n * 2,
    lambda n: 1 / n,
    lambda n: 2 / n,
    lambda n: 0.5 / n,
    lambda n: n - 1,
    lambda n: n + 1,
    lambda n: 1 / (n - 1) if n > 1 else 0.0,
    lambda n: n / (n - 1) if n > 1 else 0.0,
)
"""What a number of elements becomes: mean, squares and their gradients, variance, loop bounds."""


@dataclass(frozen=True, slots=True)
class Numbers:
    """Changed constants that count elements, A's to B's."""

    certain: Mapping[int, int]
    """They meet sums over so many elements, or values of so many."""
    assumed: Mapping[int, int]
    """They only have the value of such a number."""


def counting_constants(case: Case, members: Mapping[int, int]) -> Numbers:
    """The constants that follow from the sizes of `members`, A's instructions to B's."""
    counts = _element_counts(case, members)
    sure: dict[int, int] = {}
    assumed: dict[int, int] = {}
    for x, y, fields in case.open_changes():
        if fields == ("payload",) and case.diff.a.opcodes[x] == "constant":
            certain = [_is_certain(case, x, old) for old in _counted(case, x, y, counts)]
            if certain:
                (sure if any(certain) else assumed)[x] = y
    return Numbers(sure, assumed)


def _element_counts(case: Case, members: Mapping[int, int]) -> set[tuple[int, int]]:
    """The numbers of elements along some dimensions of what changed: A's and B's."""
    a, b = case.diff.a, case.diff.b
    found: set[tuple[int, int]] = set()
    for old_shape, new_shape in {(a.shapes[x], b.shapes[y]) for x, y in members.items()}:
        if not changed_sizes(old_shape, new_shape):
            continue
        sizes = [
            *zip(read_shape(old_shape).dimensions, read_shape(new_shape).dimensions, strict=True)
        ][:MAX_RANK]
        for number in range(1, len(sizes) + 1):
            for chosen in combinations(sizes, number):
                old, new = math.prod(p for p, _ in chosen), math.prod(q for _, q in chosen)
                if old != new and old and new:
                    found.add((old, new))
    return found


def _counted(case: Case, x: int, y: int, counts: Collection[tuple[int, int]]) -> list[int]:
    """The numbers of A's elements that a constant may stand for."""
    a, b = case.diff.a, case.diff.b
    try:
        old, new = abs(float(a.payloads[x])), abs(float(b.payloads[y]))
    except ValueError:
        return []
    form = format_of(a.shapes[x].partition("[")[0])
    tolerance = max(TOLERANCE, 2.0**-form.mantissa) if form else 0.0
    return [
        p
        for p, q in sorted(counts)
        if any(
            math.isclose(form_of(p), old, rel_tol=tolerance)
            and math.isclose(form_of(q), new, rel_tol=tolerance)
            for form_of in FORMS
        )
    ]


def _is_certain(case: Case, x: int, number: int) -> bool:
    """Whether all that a constant of A meets are sums over so many elements, or has so many.

    A whole number that bounds a dimension need not.
    """
    a, closed = case.diff.a, case.diff.match.a.closed
    if not format_of(a.shapes[x].partition("[")[0]) and abs(int(a.payloads[x]) - number) <= 1:
        return True
    pending, seen, met = [x], {x}, []
    for i in pending:  # grows while it is read
        for user in a.users[i]:
            if _elements(a, user) == number or not closed[user]:
                met.append(user)
            elif user not in seen:
                seen.add(user)
                pending.append(user)
    return bool(met) and all(
        _elements(a, user) == number or _is_sum(case, user, number) for user in met
    )


def _is_sum(case: Case, i: int, number: int) -> bool:
    """Whether a value comes from sums over so many elements in all."""
    a, closed = case.diff.a, case.diff.match.a.closed
    summed = 1
    for _ in range(MAX_STEPS):
        if a.opcodes[i] == "reduce":
            summed *= _elements(a, a.operands[i][0]) // max(_elements(a, i), 1)
            if summed == number:
                return True
        above = [o for o in a.operands[i] if not closed[o]]
        if len(above) != 1:
            return False
        i = above[0]
    return False


def _elements(module: Module, i: int) -> int:
    return math.prod(read_shape(module.shapes[i]).dimensions)
