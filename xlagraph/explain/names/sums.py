"""Sums that keep other dimensions in the other version, as a score of each image and of a batch."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from math import isclose, prod
from typing import TYPE_CHECKING, NamedTuple

from xlagraph.cause.model import Evidence
from xlagraph.cause.names import short_shape
from xlagraph.cause.sources import at, line_of
from xlagraph.explain.names.merged import BRANCHES, EXACT, has_code, merged, numbers_of
from xlagraph.hlo.shapes import read_shape
from xlagraph.message import A, B, Code, count, say

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from xlagraph.cause.model import Cause
    from xlagraph.diff import Diff
    from xlagraph.graph import Module


class _Sum(NamedTuple):
    """What is summed, and what is left of it."""

    size: int
    """How many elements there are."""
    kept: tuple[int, ...]
    """The sizes that are left, those of one element aside."""


def with_sums(diff: Diff, causes: Sequence[Cause]) -> list[Cause]:
    """The causes; the first, where no formula tells it, by the sums that keep other dimensions.

    Both sides have to have as many of them, of as many elements. A number that is by as much larger
    as more is kept is what a mean of them divides by.
    """
    main = next(iter(causes), None)
    if main is None or main.kind not in BRANCHES or has_code(main):
        return list(causes)
    sides = _sums(diff.a, main.a), _sums(diff.b, main.b)
    found = _other_sums(*(Counter(side.values()) for side in sides))
    if found is None:
        return list(causes)
    in_a, in_b = (
        [i for i, told in side.items() if told == x] for side, x in zip(sides, found, strict=True)
    )
    one, other = found
    told = _told(diff, main, in_a, in_b)
    factor = prod(other.kept) / prod(one.kept)
    behind = [cause for cause in causes if _is_by(cause, factor)]
    others = [cause for cause in causes if cause is not main]
    return merged([told, *others], told, [told, *behind])


def _other_sums(a: Counter[_Sum], b: Counter[_Sum]) -> tuple[_Sum, _Sum] | None:
    """The sums of as many elements of which each side keeps others, if these are the only ones.

    What is left may be summed again.
    """
    pairs = [
        (one, other)
        for one in a - b
        for other in b - a
        if one.size == other.size and one.kept != other.kept and (a - b)[one] == (b - a)[other]
    ]
    if len(pairs) != 1:
        return None
    ((one, other),) = pairs
    left = {*(a - b), *(b - a)} - {one, other}
    sizes = {prod(one.kept), prod(other.kept)}
    return pairs[0] if all(another.size in sizes for another in left) else None


def _sums(module: Module, own: Iterable[int]) -> dict[int, _Sum]:
    """The sums and means of the forward pass among these instructions."""
    found = {}
    for i in sorted(own):
        if module.opcodes[i] != "reduce" or _reduces(module, i) != "add":
            continue
        line = line_of(module, i)
        shapes = [read_shape(module.shapes[k]) for k in (module.operands[i][0], i)]
        if (line and line.backward_of) or any(shape.is_tuple for shape in shapes):
            continue
        taken, left = (tuple(shape.dimensions) for shape in shapes)
        found[i] = _Sum(prod(taken), tuple(n for n in left if n != 1))
    return found


def _reduces(module: Module, i: int) -> str:
    """The opcode with which a reduction puts two values together."""
    (called,) = module.callees[i]
    return module.opcodes[module.computations[called].root]


def _told(diff: Diff, main: Cause, in_a: Sequence[int], in_b: Sequence[int]) -> Cause:
    a, b = diff.a, diff.b
    shapes = [Code(short_shape(a, in_a[0])), Code(short_shape(b, in_b[0]))]
    taken = Code(short_shape(a, a.operands[in_a[0]][0]))
    lines = tuple(line for line in [line_of(b, in_b[0])] if line)
    gives = " gives " if len(in_b) == 1 else " give "
    number = count(len(in_b), "sum")
    what = say(f"{number} of ", taken, gives, shapes[0], " in ", A, " and ", shapes[1], " in ", B)
    return replace(
        main,
        title=say(what, at(lines), ": over other dimensions"),
        short=say(what, ": over other dimensions"),
        evidence=(Evidence(what, tuple(in_a), tuple(in_b), lines), *main.evidence),
        place=replace(main.place, line=lines[0], stack=(), source=()) if lines else main.place,
    )


def _is_by(cause: Cause, factor: float) -> bool:
    """Whether a cause is of one number that is by this factor another."""
    numbers = numbers_of(cause)
    if numbers is None:
        return False
    old, new = numbers
    return any(isclose(ratio, factor, rel_tol=EXACT) for ratio in (new / old, old / new))
