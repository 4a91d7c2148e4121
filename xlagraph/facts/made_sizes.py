"""Where sizes begin to differ of values that both have: groups, heads, the axis of a mean."""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING, NamedTuple

from xlagraph.cause.names import attribute_changes, short_shape
from xlagraph.hlo.shapes import read_shape
from xlagraph.message import Change, say

if TYPE_CHECKING:
    from collections.abc import Iterable

    from xlagraph.diff import Diff
    from xlagraph.graph import Module
    from xlagraph.message import Message

WITH_OPTIONS = frozenset({"convolution", "dot", "reduce", "reduce-window", "concatenate"})
"""What gives another shape of the same operands by an option that the program writes."""
GROUPS = "values are divided into other groups"


class Maker(NamedTuple):
    """The first instruction that gives other sizes of operands of the same sizes."""

    a: int
    b: int
    what: Message


def made_by(diff: Diff, pairs: Iterable[tuple[int, int]]) -> Maker | None:
    """Which of these pairs makes the sizes; None where Python may have computed them.

    A reshape that divides as many elements in another way, or an operation with other options.
    """
    found = ((x, y, _told(diff, x, y)) for x, y in sorted(pairs) if y >= 0)
    return next((Maker(x, y, told) for x, y, told in found if told), None)


def _told(diff: Diff, x: int, y: int) -> Message | None:
    a, b = diff.a, diff.b
    opcode, sizes, others = a.opcodes[x], _dimensions(a, x), _dimensions(b, y)
    taken = [_dimensions(a, o) for o in a.operands[x]]
    is_maker = sizes != others and taken == [_dimensions(b, o) for o in b.operands[y]]
    if opcode != b.opcodes[y] or not is_maker:
        return None
    if opcode == "reshape":
        shapes = Change(short_shape(a, x), short_shape(b, y), became="became")
        return say(GROUPS, ": ", shapes) if prod(sizes) == prod(others) else None
    changes = attribute_changes(a.attributes[x], b.attributes[y])
    return say(f"{opcode} has other options, ", changes) if opcode in WITH_OPTIONS else None


def _dimensions(module: Module, i: int) -> tuple[int, ...]:
    return tuple(read_shape(module.shapes[i]).dimensions)
