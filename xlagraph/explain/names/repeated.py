"""Values that both sides repeat, one by one or all together."""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING

from xlagraph.explain.names.merged import BRANCHES, merged
from xlagraph.facts.values.ranges import axes_of
from xlagraph.hlo.shapes import read_shape
from xlagraph.message import A, B, say
from xlagraph.rules.shapes.sizes import ATTRIBUTE

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Sequence

    from xlagraph.cause.model import Cause
    from xlagraph.diff import Diff
    from xlagraph.graph import Module

FIX = say("Repeat them in one way in both.")
_WAYS = {
    True: "one by one (repeat_interleave, jnp.repeat)",
    False: "all together (Tensor.repeat, jnp.tile)",
}


def with_repeated(diff: Diff, causes: Sequence[Cause]) -> list[Cause]:
    """The causes, those in which one side repeats values one by one, and the other all together.

    Such are one edit: query heads share keys in turn, or group by group.
    """
    found = [
        (cause, {*_repeats(diff.a, cause.a)}, {*_repeats(diff.b, cause.b)})
        for cause in causes
        if cause.proved and cause.kind in (*BRANCHES, ATTRIBUTE)
    ]
    parts = [cause for cause, in_a, in_b in found if in_a or in_b]
    in_a = set[bool]().union(*(own for _, own, _ in found))
    in_b = set[bool]().union(*(own for _, _, own in found))
    if len(in_a) != 1 or len(in_b) != 1 or in_a == in_b:
        return list(causes)
    ways = [say(_WAYS[own.pop()], " in ", side) for own, side in ((in_a, A), (in_b, B))]
    short = say("Values are repeated ", ways[0], ", ", ways[1])
    return merged(causes, parts[0], parts, short=short, fix=FIX, short_fix=FIX)


def _repeats(module: Module, piece: Collection[int]) -> Iterator[bool]:
    """For each value of a piece that is repeated along an axis, whether that is one by one."""
    for i in sorted(piece):
        if module.opcodes[i] == "broadcast":
            for user in module.users[i]:
                if module.opcodes[user] == "reshape":
                    yield from _ways(module, i, user)


def _ways(module: Module, spread: int, merged_into: int) -> Iterator[bool]:
    """How a broadcast repeats values whose axes a reshape puts together."""
    given = {*axes_of(module, spread)}
    sizes = read_shape(module.shapes[spread]).dimensions
    for group in _groups(sizes, read_shape(module.shapes[merged_into]).dimensions):
        large = [k for k in group if sizes[k] > 1]
        new = [k for k in large if k not in given]
        if len(new) == 1 and len(large) == 2:
            yield large[1] == new[0]


def _groups(before: Sequence[int], after: Sequence[int]) -> Iterator[list[int]]:
    """The axes that a reshape puts together, in the order in which they stand."""
    k = 0
    for size in after:
        group: list[int] = []
        while k < len(before) and (prod(before[j] for j in group) < size or before[k] == 1):
            group.append(k)
            k += 1
        yield group
