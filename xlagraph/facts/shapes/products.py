"""Numbers beside sizes: what somebody has typed, and what follows from that and a size at once."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from xlagraph.facts.shapes.sizes import changed_sizes

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable

    from xlagraph.diff import Diff
    from xlagraph.message import Change

MAX_DIGITS = 4
"""Digits of a number that somebody has typed; what is computed of it has more, as a rule."""
TOLERANCE = 1e-5
"""Relative, for what was computed in single precision."""
POWERS = (0.5, 1.0, 2.0)
"""How sizes come into numbers: roots of them, themselves, their squares."""


def is_typed(change: Change, sizes: Collection[float]) -> bool:
    """Whether somebody typed both values of a number: short fractions, in no ratio of sizes."""
    old, new = values(change)
    is_whole = float(old).is_integer() and float(new).is_integer()
    if not (old and new) or is_whole or max(map(_digits, change[:2])) > MAX_DIGITS:
        return False
    return not any(math.isclose(abs(new / old), one, rel_tol=TOLERANCE) for one in _powers(sizes))


def is_product(change: Change, typed: Change, sizes: Collection[float]) -> bool:
    """Whether a number changed by the ratio of a typed one and of a size, and not of one alone."""
    old, new = values(change)
    first, then = values(typed)
    ratio = abs(new / old)
    return any(
        math.isclose(ratio, abs(then / first) ** way * one, rel_tol=TOLERANCE)
        for one in _powers(sizes)
        for way in (1, -1)
    )


def ratios(diff: Diff, pairs: Collection[int]) -> set[float]:
    """By what sizes grew in A's instructions of these that have a partner, or shrank."""
    shapes = {(diff.a.shapes[x], diff.b.shapes[y]) for x in pairs if (y := diff.match.to_b[x]) >= 0}
    changed = (one for old, new in shapes for one in changed_sizes(old, new))
    return {new / old for _, old, new in changed if old and new}


def values(change: Change) -> tuple[float, float]:
    """Both as numbers; 0 for other texts."""
    try:
        return float(change.old), float(change.new)
    except ValueError:
        return 0.0, 0.0


def _powers(sizes: Iterable[float]) -> list[float]:
    return [one**power for one in sizes for p in POWERS for power in (p, -p)]


def _digits(text: str) -> int:
    """How many digits a number has that count."""
    mantissa = text.lower().partition("e")[0]
    return len(mantissa.replace(".", "").lstrip("-0").rstrip("0"))
