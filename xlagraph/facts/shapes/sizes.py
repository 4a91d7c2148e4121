"""What follows from a dimension: other dimensions, slice bounds, attributes that state sizes."""

from __future__ import annotations

import re
from dataclasses import replace
from itertools import permutations
from typing import TYPE_CHECKING

from xlagraph.cause.names import differing_keys
from xlagraph.hlo.shapes import read_shape
from xlagraph.message import EMPTY, Change, join, say

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from xlagraph.cause.case import Case
    from xlagraph.graph import Attributes, Module
    from xlagraph.hlo.shapes import Shape
    from xlagraph.message import Message

INDEX_OPCODES = frozenset(
    {"slice", "dynamic-slice", "pad", "gather", "iota", "dynamic-update-slice"}
)
"""What is given bounds, or a size."""
SIZE_KEYS = frozenset(
    {
        "backend_config",
        "dynamic_slice_sizes",
        "operand_layout_constraints",
        "padding",
        "slice",
        "slice_sizes",
        "window",
    }
)
"""Attributes that state sizes and so follow the dimensions of operands."""
MAX_SHIFT = 2
"""So many places are cut off a dimension, or added to it, before it is joined with others."""
MAX_JOINED = 12
"""Sizes of which any two may be joined; of more too many fractions would be some product."""
Sizes = frozenset[tuple[int, int]]
"""Sizes that changed: A's and B's."""
_WHOLE = frozenset({"pred", "s16", "u16", "s32", "u32", "s64", "u64"})
"""Types of tokens, labels, indices and masks; those of a byte may be weights, quantized."""
_TYPE = re.compile(r"\b[a-z]+\d*\w*(?=\[)")
BOUNDS = re.compile(r"\[(\d+):(\d+)(?::(\d+))?\]")
"""Start, end and step of a slice in one dimension, as its attribute has them."""


def same_structure(first: str, second: str) -> bool:
    """Whether two shapes are arrays, or tuples of equally many alike parts."""

    def agree(one: Shape, two: Shape) -> bool:
        if len(one.parts) != len(two.parts) or one.is_tuple != two.is_tuple:
            return False
        return all(agree(p, q) for p, q in zip(one.parts, two.parts, strict=True))

    return agree(read_shape(first), read_shape(second))


def changed_sizes(first: str, second: str) -> list[tuple[int, int, int]]:
    """The dimensions of two arrays that differ: axis, A's size, B's size."""
    old, new = read_shape(first).dimensions, read_shape(second).dimensions
    if len(old) != len(new):
        return []
    return [(k, d, e) for k, (d, e) in enumerate(zip(old, new, strict=True)) if d != e]


def resized(dimensions: Sequence[tuple[int, int, int]], *, in_text: bool) -> Message:
    """`` (dimension 0: 8 -> 6)`` of what `changed_sizes` gives; nothing where that is empty.

    `in_text`: the sizes are no change of their own, as where an option sets them.
    """
    each = (
        say(f"dimension {axis}: ", f"{old} -> {new}" if in_text else Change(str(old), str(new)))
        for axis, old, new in dimensions
    )
    return say(" (", join(each, len(dimensions)), ")") if dimensions else EMPTY


def with_dimensions(first: str, second: str) -> str:
    """The second shape with the first one's element types."""
    types = iter(_TYPE.findall(first))
    if len(_TYPE.findall(first)) != len(_TYPE.findall(second)):
        return second
    return _TYPE.sub(lambda _: next(types), second)


def explained(first: str, second: str, sizes: Sizes) -> bool:
    """Whether every dimension that differs is scaled, or shifted, as one of these sizes is.

    Or as two of them at once: rows and columns that were joined.
    """
    one, two = read_shape(first), read_shape(second)
    if one.parts or two.parts:
        return len(one.parts) == len(two.parts)
    if len(one.dimensions) != len(two.dimensions):
        return False
    return all(
        d == e
        or any(_follows((d, e), size) for size in sizes)
        or (
            len(sizes) <= MAX_JOINED
            and any(_follows_both((d, e), pair) for pair in permutations(sizes, 2))
        )
        for d, e in zip(one.dimensions, two.dimensions, strict=True)
    )


def _follows(change: tuple[int, int], size: tuple[int, int]) -> bool:
    """Whether a size is a multiple of another one, or that and a fixed number.

    Or a multiple of what is left of it without a token or two: of 8 rows that end one earlier
    152 -> 88 follows from 20 -> 12.
    """
    (d, e), (p, q) = change, size
    if d * q == e * p or d - p == e - q:
        return True
    times, rest = divmod(d - e, p - q)
    shift = d - times * p
    return not rest and times > 1 and shift % times == 0 and abs(shift // times) <= MAX_SHIFT


def _follows_both(change: tuple[int, int], pair: tuple[tuple[int, int], ...]) -> bool:
    """Whether a size is a multiple of two others, the second of them without a token or two."""
    (d, e), ((p, q), (r, s)) = change, pair
    for cut in range(-MAX_SHIFT, MAX_SHIFT + 1):
        old, new = p * (r + cut), q * (s + cut)
        if old and d % old == 0 and d * new == e * old:
            return True
    return False


def follows_operand(case: Case, x: int, y: int) -> bool:
    """Whether a slice has the same start, stride and distance to the end on both sides."""
    a, b = case.diff.a, case.diff.b
    if a.opcodes[x] != "slice":
        return False
    found = []
    for module, i in ((a, x), (b, y)):
        bounds = BOUNDS.findall(module.attributes[i].get("slice") or "")
        sizes = read_shape(module.shapes[module.operands[i][0]]).dimensions
        found.append(
            [
                (low, size - int(high), step)
                for (low, high, step), size in zip(bounds, sizes, strict=False)
            ]
        )
    return found[0] == found[1]


def size_keys_differ_only(first: Attributes, second: Attributes) -> bool:
    """Whether attributes differ, and in nothing but sizes."""
    keys = differing_keys(first, second)
    return bool(keys) and keys <= SIZE_KEYS


def with_sizes(first: Attributes, second: Attributes) -> Attributes:
    """The first attributes with the second one's sizes."""
    new = dict(second.items)
    items = tuple((k, new.get(k, v) if k in SIZE_KEYS else v) for k, v in first.items)
    added = tuple((k, v) for k, v in second.items if k in SIZE_KEYS and first.get(k) is None)
    return first if items == first.items and not added else replace(first, items=items + added)


def stated_sizes(case: Case, members: Mapping[int, int]) -> dict[int, int]:
    """Instructions whose attributes state sizes of what changed, A's numbers to B's."""
    a, b = case.diff.a, case.diff.b
    return {
        x: y
        for x, y in case.changed_alone("attributes")
        if any(o in members for o in a.operands[x])
        and size_keys_differ_only(a.attributes[x], b.attributes[y])
    }


def are_whole_numbers(module: Module, instructions: Iterable[int]) -> bool:
    """Whether all are of a type that weights never have: a size is that of data then."""
    return all(read_shape(module.shapes[i]).element_type in _WHOLE for i in instructions)
