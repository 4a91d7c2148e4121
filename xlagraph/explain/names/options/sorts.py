"""What is sorted: in which direction, and how many of it are kept."""

from __future__ import annotations

from dataclasses import replace
from itertools import product
from typing import TYPE_CHECKING

from xlagraph.explain.names.merged import merged, pairs_of
from xlagraph.facts.shapes.sizes import changed_sizes
from xlagraph.message import A, B, say
from xlagraph.rules.pieces.extra_subgraph import EXTRA_SUBGRAPH
from xlagraph.rules.shapes.sizes import ATTRIBUTE, PYTHON_INDEX

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Sequence

    from xlagraph.cause.model import Cause
    from xlagraph.diff import Diff
    from xlagraph.graph import Module

FIX = say("Sort in one direction in both (descending=).")
CUT_FIX = say(
    "One version takes more of what is sorted and cuts some of it off, as a point that is its own "
    "nearest neighbour: keep one of the two versions."
)
CUT_SHORT_FIX = say("Keep one of the two versions; a change costs one compile.")
_ORDERS = {"LT": "ascending", "LE": "ascending", "GT": "descending", "GE": "descending"}


def with_order(diff: Diff, cause: Cause) -> Cause:
    """The cause, as values that are sorted in another direction where its comparisons say that."""
    orders = {
        (order, other)
        for x in cause.a
        if cause.kind is ATTRIBUTE
        and (order := _order(diff.a, x))
        and (other := _order(diff.b, diff.match.to_b[x]))
    }
    (order, other), *others = orders or {("", "")}
    if others or order == other:
        return cause
    told = say(f"values are sorted in {order} order in ", A, f", in {other} order in ", B)
    return replace(cause, short=told, fix=FIX, short_fix=FIX)


def with_cut(diff: Diff, causes: Sequence[Cause]) -> list[Cause]:
    """The causes; as one another k of topk and the slices that cut off what is more by it."""
    taken = [cause for cause in causes if cause.kind is PYTHON_INDEX and cause.proved]
    slices = [cause for cause in causes if cause.kind is EXTRA_SUBGRAPH and cause.proved]
    for main, cut in product(taken, slices):
        sizes = {size for x, y in pairs_of(diff, main) for size in _changed(diff, x, y)}
        cuts_b = _cuts(diff.b, cut.b.intersection(diff.added), main.b)
        cuts = cuts_b or _cuts(diff.a, cut.a.intersection(diff.removed), main.a)
        if len(sizes) == 1 and cuts and "topk" in str(main.in_short):
            side = B if cuts_b else A
            less, more = sorted(*sizes)
            told = say(f"topk takes {more} in ", side, f", of which a slice cuts off {more - less}")
            told = say(told, f", and {less} in ", side.other)
            words = {"short": told, "fix": CUT_FIX, "short_fix": CUT_SHORT_FIX}
            return merged(causes, main, [main, cut], **words)
    return list(causes)


def _changed(diff: Diff, x: int, y: int) -> Iterator[tuple[int, int]]:
    """The sizes, old and new, that a pair of slices differs by."""
    if diff.a.opcodes[x] == "slice":
        yield from ((d, e) for _, d, e in changed_sizes(diff.a.shapes[x], diff.b.shapes[y]))


def _cuts(module: Module, alone: Collection[int], taken: Collection[int]) -> bool:
    """Whether what one side alone computes is slices of what the other cause is of."""
    return bool(alone) and all(
        module.opcodes[i] == "slice" and module.operands[i][0] in taken for i in alone
    )


def _order(module: Module, compare: int) -> str:
    """The order that a sort makes by a comparison; empty of one that no sort applies.

    XLA's comparator says whether its first value is to stand before its second one.
    """
    if compare < 0 or module.opcodes[compare] != "compare":
        return ""
    own = module.computation_of(compare)
    is_sort = any(module.opcodes[i] == "sort" for i in module.callers.get(own.index, ()))
    direction = module.attributes[compare].get("direction") or ""
    pairs = zip(own.parameters[::2], own.parameters[1::2], strict=False)
    is_plain = tuple(module.operands[compare]) in {*pairs}
    return _ORDERS.get(direction, "") if is_sort and is_plain else ""
