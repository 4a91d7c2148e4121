"""Variances whose sum is divided by their number or by one less, as `unbiased` (`correction`) says.

torch divides by ``max(0, N - 1)`` where it corrects, and by N where it does not.
"""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING

from xlagraph.explain.names.merged import formula_of
from xlagraph.message import EMPTY, A, B, say

if TYPE_CHECKING:
    from xlagraph.cause.model import Cause
    from xlagraph.diff import Diff
    from xlagraph.message import Part

_CORRECTED = re.compile(r"sum\(.*\) \* \(1 / max\(0, \d+ - 1\)\)")
_ADDED = re.compile(r"sqrt\(.* \+ \w+\)")
_BOUNDED = re.compile(r"(?:clamp|max)\(.*sqrt\(")
WHAT = "a variance is computed in another way: "
BOTH_FIX = say("Use one formula for it in both: unbiased, and where eps goes.")
FIX = say("Give var (std) the same unbiased, or correction, in both.")


def with_variance(_: Diff, cause: Cause) -> Cause:
    """The cause of such a divisor as that, behind its formula."""
    in_a, became, in_b = str(cause.short).partition(" became ")
    if not became or cause.short_fix:
        return cause
    is_a, is_b = bool(_CORRECTED.search(in_a)), bool(_CORRECTED.search(in_b))
    if is_a == is_b or "mean(" not in (in_b if is_a else in_a):
        return cause
    one, other = (A, B) if is_a else (B, A)
    told: tuple[Part, ...]
    told = (", the variance divided by N - 1 in ", one, " (unbiased=True) and by N in ", other)
    bounded = [bool(_BOUNDED.search(text)) for text in (in_a, in_b)]
    added = [bool(_ADDED.search(text)) for text in (in_a, in_b)]
    if bounded[0] != bounded[1] and added == bounded[::-1]:
        under, bound = (A, B) if added[0] else (B, A)
        told = (*told, "; a small number is added under the root in ", under, " and bounds it in ")
        told = (*told, bound, " (clamp)")
    is_one = " became " not in in_b
    fix = (BOTH_FIX if any(bounded) else FIX) if is_one else EMPTY
    return replace(cause, short=say(WHAT, *formula_of(cause), *told), short_fix=fix)
