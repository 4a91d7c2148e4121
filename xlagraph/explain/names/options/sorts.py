"""Comparisons by which values are sorted: in which direction they are."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from xlagraph.message import A, B, say
from xlagraph.rules.shapes.sizes import ATTRIBUTE

if TYPE_CHECKING:
    from xlagraph.cause.model import Cause
    from xlagraph.diff import Diff
    from xlagraph.graph import Module

FIX = say("Sort in one direction in both (descending=).")
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
