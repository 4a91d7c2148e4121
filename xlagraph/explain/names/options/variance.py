"""Variances whose sum is divided by their number or by one less, as `unbiased` (`correction`) says.

torch divides by ``max(0, N - 1)`` where it corrects, and by N where it does not.
"""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING

from xlagraph.message import EMPTY, A, B, say

if TYPE_CHECKING:
    from xlagraph.cause.model import Cause
    from xlagraph.diff import Diff

_CORRECTED = re.compile(r"sum\(.*\) \* \(1 / max\(0, \d+ - 1\)\)")
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
    told = (", the variance divided by N - 1 in ", one, " (unbiased=True) and by N in ", other)
    is_one = " became " not in in_b
    return replace(cause, short=say(cause.short, *told), short_fix=FIX if is_one else EMPTY)
