"""Pieces and options that stand next to each other, as one edit with one formula."""

from __future__ import annotations

from typing import TYPE_CHECKING

from xlagraph.explain.names.merged import BRANCHES, has_code, merged
from xlagraph.facts.values.formulas import formulas
from xlagraph.message import say
from xlagraph.rules.pieces.replaced_subgraph import REPLACED_SUBGRAPH
from xlagraph.rules.shapes.sizes import ATTRIBUTE

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from xlagraph.cause.model import Cause
    from xlagraph.diff import Diff
    from xlagraph.graph import Module

MAX_FORMULA = 60
"""Characters of a formula; a longer one is no help."""


def with_joined(diff: Diff, causes: Sequence[Cause]) -> list[Cause]:
    """The causes; a piece that no formula tells with the options beside it, if one tells them all.

    Such as a comparison that is another one, of a value that is another one.
    """
    main = next(iter(causes), None)
    if main is None or main.kind not in BRANCHES or not main.proved:
        return list(causes)
    beside = [
        cause
        for cause in causes
        if cause.kind is ATTRIBUTE and cause.proved and _touch(diff, main, cause)
    ]
    if not beside:
        return list(causes)
    parts = [main, *beside]
    if has_code(main):
        compared = [cause for cause in beside if _is_comparison(diff, cause)]
        return merged(causes, main, [main, *compared])
    own_a = frozenset[int]().union(*(cause.a for cause in parts))
    own_b = frozenset[int]().union(*(cause.b for cause in parts))
    found = formulas(diff, own_a, own_b)
    if found is None or max(len(found.a), len(found.b)) > MAX_FORMULA:
        return list(causes)
    short = say(REPLACED_SUBGRAPH.short, ": ", found.message)
    return merged(causes, main, parts, short=short)


def _is_comparison(diff: Diff, cause: Cause) -> bool:
    """Whether a cause is of comparisons alone: they stand in the formula beside them."""
    return all(diff.a.opcodes[i] == "compare" for i in cause.a)


def _touch(diff: Diff, one: Cause, other: Cause) -> bool:
    """Whether what causes claim stands next to each other, on both sides."""
    return _are_next(diff.a, one.a, other.a) or _are_next(diff.b, one.b, other.b)


def _are_next(module: Module, one: Collection[int], other: Collection[int]) -> bool:
    return any(o in other for i in one for o in module.operands[i]) or any(
        o in one for i in other for o in module.operands[i]
    )
