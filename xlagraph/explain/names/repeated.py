"""Values that both sides repeat, one by one or all together; and a term that one adds once more."""

from __future__ import annotations

from dataclasses import replace
from math import prod
from typing import TYPE_CHECKING

from xlagraph.explain.names.merged import BRANCHES, merged
from xlagraph.facts.values.ranges import axes_of
from xlagraph.facts.values.scalars import without_one
from xlagraph.hlo.shapes import read_shape
from xlagraph.message import A, B, Code, say
from xlagraph.rules.pieces.extra_subgraph import EXTRA_SUBGRAPH
from xlagraph.rules.shapes.sizes import ATTRIBUTE

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Sequence

    from xlagraph.cause.model import Cause
    from xlagraph.diff import Diff
    from xlagraph.diff.match import Side
    from xlagraph.graph import Module

TWICE_FIX = say(
    "Something runs once more than before: a hook that is registered again (each epoch, or call) "
    "and never removed, or a list of terms that is not emptied. Register it once, or call "
    "handle.remove() first; empty the list in each step."
)
TWICE_SHORT_FIX = say("Attach a hook once (handle.remove()), and empty lists each step.")
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
        return [_as_once_more(diff, cause) for cause in causes]
    ways = [say(_WAYS[own.pop()], " in ", side) for own, side in ((in_a, A), (in_b, B))]
    short = say("Values are repeated ", ways[0], ", ", ways[1])
    return merged(causes, parts[0], parts, short=short, fix=FIX, short_fix=FIX)


def _as_once_more(diff: Diff, cause: Cause) -> Cause:
    """The cause, as a term that one side adds once more than the other where it is that.

    Both compute it, of the same values.
    """
    alone = (cause.a.intersection(diff.removed), cause.b.intersection(diff.added))
    if cause.kind is not EXTRA_SUBGRAPH or not cause.proved or all(alone) or not any(alone):
        return cause
    side, own = (A, alone[0]) if alone[0] else (B, alone[1])
    view = diff.match.a if side is A else diff.match.b
    module, twins = view.module, _twins(view, own)
    terms = {
        o
        for i in own
        if module.opcodes[i] == "add" and i not in twins
        for o in module.operands[i]
        if without_one(module, o) in twins
    }
    is_summed = any(module.opcodes[i] == "reduce" for i in twins)
    if not is_summed or not any(module.shapes[o].endswith("[]") for o in terms):
        return cause
    formulas = cause.in_short.code
    told = (": ", Code(formulas[0]), " became ", Code(formulas[1])) if len(formulas) == 2 else ()
    short = say("A term of the loss is added once more in ", side, " than in ", side.other, *told)
    return replace(cause, short=short, fix=TWICE_FIX, short_fix=TWICE_SHORT_FIX)


def _twins(view: Side, own: Collection[int]) -> dict[int, int]:
    """Instructions of a piece that another one computes as well, each with that."""
    module, twins = view.module, dict[int, int]()
    for i in sorted(own):
        operands = [twins.get(o, o) for o in module.operands[i]]
        if not operands or any(o in own and not view.closed[o] for o in operands):
            continue
        for j in module.users[operands[0]]:
            if j != i and j not in own and _is_alike(view, i, j, operands):
                twins[i] = j
                break
    return twins


def _is_alike(view: Side, i: int, j: int, operands: Sequence[int]) -> bool:
    """Whether one computes of these operands what the other does of its own; constants may do."""
    module = view.module
    theirs = module.operands[j]
    if module.opcodes[i] != module.opcodes[j] or module.shapes[i] != module.shapes[j]:
        return False
    return len(theirs) == len(operands) and all(
        o == p or (view.closed[o] and view.closed[p] and module.opcodes[o] == module.opcodes[p])
        for o, p in zip(operands, theirs, strict=True)
    )


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
