"""Values that are joined: in another order, or more of them; products that sum over other axes."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from xlagraph.cause.editor import is_input
from xlagraph.explain.names.merged import merged, pairs_of
from xlagraph.explain.names.taken import value_in_words
from xlagraph.facts.shapes.sizes import changed_sizes
from xlagraph.facts.values.notation import elements
from xlagraph.message import A, B, Change, Code, join, say
from xlagraph.rules.order.reordered_operands import REORDERED_OPERANDS
from xlagraph.rules.pieces.longer_join import LISTED
from xlagraph.rules.shapes.sizes import ATTRIBUTE, INPUT_SHAPE, PYTHON_SIZE

if TYPE_CHECKING:
    from collections.abc import Sequence

    from xlagraph.cause.model import Cause
    from xlagraph.diff import Diff
    from xlagraph.graph import Module
    from xlagraph.message import Message

MAX_JOINED = 4
ROWS_FIX = say(
    "A loop in Python goes over the rows of an input, whose number differs, and joins what it "
    "computes of each: every number of rows is a graph of its own. Pad the input to one length on "
    "the host, with a mask by which the rows that were added count nothing; and compute all rows "
    "at once (a cumulative sum, a product with a matrix), or on the host."
)
ROWS_SHORT_FIX = say("Pad the input to one length, with a mask.")
_SUMMED = ("lhs_contracting_dims", "rhs_contracting_dims")


def with_joins(diff: Diff, causes: Sequence[Cause]) -> list[Cause]:
    """The causes, those of an order in which values are joined with that order; as one if alike."""
    told = [_as_join(diff, cause) for cause in causes]
    for main in told:
        alike = [c for c in told if _is_order(c) and c.proved and c.in_short == main.in_short]
        if len(alike) > 1 and all(c.place.line == main.place.line for c in alike):
            return merged(told, main, alike)
    return told


def with_lists(diff: Diff, causes: Sequence[Cause]) -> list[Cause]:
    """The causes, as one those of a longer list and of inputs that grow by as much."""
    main = next((c for c in causes if c.proved and str(c.in_short).startswith(LISTED)), None)
    if main is None:
        return list(causes)
    cited = [(x, y) for one in main.evidence for x, y in zip(one.a, one.b, strict=False)]
    grown = {elements(diff.b, y) - elements(diff.a, x) for x, y in cited}
    sizes = [c for c in causes if c.kind in (INPUT_SHAPE, PYTHON_SIZE) and c.proved]
    parts = [c for c in sizes if _grows_by(diff, c) == grown]
    if not parts:
        return list(causes)
    (x, y), *_ = cited
    numbers = len(diff.a.operands[x]), len(diff.b.operands[y])
    if all(c.kind is INPUT_SHAPE and _sizes_of(diff, c) == {numbers} for c in parts):
        told = say("a list joins one tensor for each row of an input: ", Change(*map(str, numbers)))
        words = {"short": told, "fix": ROWS_FIX, "short_fix": ROWS_SHORT_FIX}
        return merged(causes, main, [main, *parts], **words)
    return merged(causes, main, [main, *parts])


def _grows_by(diff: Diff, cause: Cause) -> set[int]:
    """By how much the sizes of inputs grow that a cause tells of."""
    return {new - old for old, new in _sizes_of(diff, cause)}


def _sizes_of(diff: Diff, cause: Cause) -> set[tuple[int, int]]:
    """The sizes of inputs, old and new, that a cause tells of."""
    inputs = [(x, y) for x in cause.a if is_input(diff.a, x) and (y := diff.match.to_b[x]) >= 0]
    return {
        (old, new)
        for x, y in inputs
        for _, old, new in changed_sizes(diff.a.shapes[x], diff.b.shapes[y])
    }


def _is_order(cause: Cause) -> bool:
    return cause.kind is REORDERED_OPERANDS


def _as_join(diff: Diff, cause: Cause) -> Cause:
    pairs = pairs_of(diff, cause) if _is_order(cause) and not cause.short else iter(())
    x, y = next(pairs, (-1, -1))
    if x < 0 or diff.a.opcodes[x] != "concatenate":
        return cause
    turned = [diff.match.to_a[o] for o in diff.b.operands[y]]
    if min(turned) < 0:
        return cause
    joined = say("values are joined in another order: ", _joined(diff.a, diff.a.operands[x]))
    return replace(cause, short=say(joined, " in ", A, ", ", _joined(diff.a, turned), " in ", B))


def _joined(module: Module, values: Sequence[int]) -> Message:
    return join((value_in_words(module, o) for o in values), MAX_JOINED, " and ")


def with_products(diff: Diff, causes: Sequence[Cause]) -> list[Cause]:
    """The causes, a product that sums over other axes with these, and its derivatives as one."""
    told = [_as_product(diff, cause) for cause in causes]
    main = next((c for c, before in zip(told, causes, strict=True) if c is not before), None)
    if main is None or not main.proved:
        return told
    parts = [c for c in told if c is not main and _follows(diff, main, c)]
    return merged(told, main, [main, *parts]) if parts else told


def _as_product(diff: Diff, cause: Cause) -> Cause:
    pairs = pairs_of(diff, cause) if cause.kind is ATTRIBUTE and not cause.short else iter(())
    for x, y in pairs:
        axes = [
            tuple(module.attributes[i].get(key) or "" for key in _SUMMED)
            for module, i in ((diff.a, x), (diff.b, y))
        ]
        if diff.a.opcodes[x] == "dot" and axes[0] != axes[1]:
            in_words = [Code(" and ".join(own)) for own in axes]
            told = say(
                *("a product sums over other axes of its two factors: ", in_words[0], " in ", A),
                *(", ", in_words[1], " in ", B),
            )
            return replace(cause, short=told)
    return cause


def _follows(diff: Diff, main: Cause, cause: Cause) -> bool:
    """Whether a cause is of nothing but turned values, or further products, of the same line."""
    opcodes = {diff.a.opcodes[x] for x, _ in pairs_of(diff, cause)}
    is_turned = cause.kind is ATTRIBUTE and opcodes <= {"dot", "transpose"}
    return is_turned and cause.proved and cause.place.line == main.place.line
