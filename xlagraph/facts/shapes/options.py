"""Options from which sizes follow: the axis of a concatenation, of a sum, of a collective."""

from __future__ import annotations

from typing import TYPE_CHECKING

from xlagraph.cause.editor import is_input
from xlagraph.cause.names import differing_keys

if TYPE_CHECKING:
    from collections.abc import Mapping

    from xlagraph.cause.case import Case

CONSEQUENCES = frozenset({"backend_config", "operand_layout_constraints", "sharding"})
"""Attributes that follow from shapes, or from which none follow."""
MAX_STEPS = 8
"""Unchanged instructions between an option and the first size that follows from it."""


def options_above(case: Case, starts: Mapping[int, int]) -> dict[int, int]:
    """The instructions whose options made the sizes of `starts` other ones, A's to B's.

    Each start has another option itself, or the values it is computed from have; none where
    there is one that has not.
    """
    changed = {x: y for x, y, fields in case.open_changes() if "attributes" in fields}
    found: dict[int, int] = {}
    for x, y in starts.items():
        if _is_option(case, x, y):
            found[x] = y
            continue
        above = _nearest(case, x, changed)
        if not above:
            return {}
        found |= {p: changed[p] for p in above}
    return found


def _nearest(case: Case, start: int, changed: Mapping[int, int]) -> list[int]:
    """The changed options that a value is computed from, through few unchanged steps."""
    a = case.diff.a
    pending, found = list(a.operands[start]), []
    for i in pending:  # grows while it is read
        if i in changed and _is_option(case, i, changed[i]):
            found.append(i)
        elif len(pending) < MAX_STEPS and not is_input(a, i):
            pending += [o for o in a.operands[i] if o not in pending]
    return found


def _is_option(case: Case, x: int, y: int) -> bool:
    first, second = case.diff.a.attributes[x], case.diff.b.attributes[y]
    return bool(differing_keys(first, second) - CONSEQUENCES)
