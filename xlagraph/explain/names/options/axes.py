"""A sum, mean or minimum along another axis, with what follows from the axis alone."""

from __future__ import annotations

from typing import TYPE_CHECKING

from xlagraph.cause.names import differing_keys
from xlagraph.explain.names.merged import merged, pairs_of
from xlagraph.facts.shapes.made_sizes import ALONG, made_by
from xlagraph.rules.numbers.shared_scalar import SHARED_SCALAR
from xlagraph.rules.order.reordered_operands import REORDERED_OPERANDS
from xlagraph.rules.shapes.sizes import ATTRIBUTE, PYTHON_SIZE

if TYPE_CHECKING:
    from collections.abc import Sequence

    from xlagraph.cause.model import Cause
    from xlagraph.diff import Diff
    from xlagraph.graph import Module

AXES = frozenset({"dimensions", "iota_dimension"})
COUNTS = frozenset({"divide"})
"""What a number of elements is handed in for: the size along the axis, that a mean divides by."""


def with_axes(diff: Diff, causes: Sequence[Cause]) -> list[Cause]:
    """The causes; with a reduction along another axis those that say no more than which axis.

    The indices of a minimum are counted along it, the derivative is scattered there, and a mean
    divides by its size. So it is with values that are spread along another axis.
    """
    for main in causes:
        spread = [c for c in causes if c.proved and _spreads(diff, c)] if _turns(diff, main) else []
        if spread:
            return merged(causes, main, [main, *spread])
    along = [cause for cause in causes if _axis(diff, cause)]
    if not along or not all(cause.proved for cause in causes):
        return list(causes)
    main = min(along, key=lambda cause: (cause.kind is ATTRIBUTE, min(cause.a)))
    axis = _axis(diff, main)
    others = [cause for cause in causes if cause is not main]
    parts = [
        cause
        for cause in others
        if _spreads(diff, cause)
        or (_follows(diff, cause) and _axes(diff, cause) <= {axis, axis[::-1]})
    ]
    if not parts:
        return list(causes)
    first = min(causes.index(cause) for cause in (main, *parts))
    return merged([*others[:first], main, *others[first:]], main, [main, *parts])


def _turns(diff: Diff, cause: Cause) -> bool:
    """Whether a cause is of values that stand along another axis of as many, with 1 beside it."""
    made = (
        made_by(diff, pairs_of(diff, cause)) if cause.kind is PYTHON_SIZE and cause.proved else None
    )
    return made is not None and str(made.what).startswith(ALONG)


def _axis(diff: Diff, cause: Cause) -> tuple[str, ...]:
    """The one axis of a reduction on both sides, if it is another one and sizes follow."""
    pairs = [*pairs_of(diff, cause)]
    is_plain = cause.kind is ATTRIBUTE and {diff.a.opcodes[x] for x, _ in pairs} == {"reduce"}
    if cause.kind is not PYTHON_SIZE and not is_plain:
        return ()
    reduced = (
        (diff.a.attributes[x].get("dimensions"), diff.b.attributes[y].get("dimensions"))
        for x, y in pairs
        if diff.a.opcodes[x] == "reduce"
    )
    found = {(old, new) for old, new in reduced if old and new and old != new}
    old, new = next(iter(found)) if len(found) == 1 else ("", "")
    return (old.strip("{}"), new.strip("{}")) if old and "," not in old + new else ()


def _axes(diff: Diff, cause: Cause) -> set[tuple[str, ...]]:
    """The axes that are others, of what a cause is of."""
    return {
        (str(old.get(key)).strip("{}"), str(new.get(key)).strip("{}"))
        for x, y in pairs_of(diff, cause)
        for old, new in [(diff.a.attributes[x], diff.b.attributes[y])]
        for key in differing_keys(old, new)
    }


def _follows(diff: Diff, cause: Cause) -> bool:
    """Whether a cause is of nothing but axes, of indices along them, or of a size."""
    a, pairs = diff.a, [*pairs_of(diff, cause)]
    if cause.kind is ATTRIBUTE:
        keys = {
            key for x, y in pairs for key in differing_keys(a.attributes[x], diff.b.attributes[y])
        }
        return keys <= AXES
    if cause.kind is REORDERED_OPERANDS:
        own = [x for x, _ in pairs]
        return all(a.opcodes[x] == "concatenate" and _has_iota(a, x) for x in own)
    return cause.kind is SHARED_SCALAR and all(
        _only_divides(a if side else diff.b, p)
        for side, some in ((True, cause.a), (False, cause.b))
        for p in some
        if (a if side else diff.b).opcodes[p] == "parameter"
    )


def _spreads(diff: Diff, cause: Cause) -> bool:
    """Whether a cause is of nothing but how values are spread, as what is reduced is again."""
    opcodes = {diff.a.opcodes[x] for x, _ in pairs_of(diff, cause)}
    return cause.kind is ATTRIBUTE and opcodes == {"broadcast"}


def _has_iota(module: Module, i: int) -> bool:
    return any(module.opcodes[o] == "iota" for o in module.operands[i])


def _only_divides(module: Module, parameter: int) -> bool:
    front = [parameter]
    for i in front:  # grows while it is read
        for user in module.users[i]:
            if module.opcodes[user] in ("broadcast", "convert", "reshape"):
                front.append(user)
            elif module.opcodes[user] not in COUNTS:
                return False
    return True
