"""A mean that is a sum in the other version, or one that is divided by another number."""

from __future__ import annotations

import re
from dataclasses import replace
from math import isclose
from typing import TYPE_CHECKING

from xlagraph.explain.names.merged import BRANCHES, EXACT, merged, numbers_of
from xlagraph.facts.values.scalars import number_of
from xlagraph.message import A, B, Code, say

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Sequence

    from xlagraph.cause.model import Cause
    from xlagraph.diff import Diff
    from xlagraph.graph import Module

DIVISOR = "A sum is divided by the number of its values"
_BY_NUMBER = re.compile(r" / [a-z]\b")
FIX = say("Use one reduction in both (mean, sum, batchmean).")


def with_divisor(_: Diff, cause: Cause) -> Cause:
    """The cause as a mean of which the other side divides the sum by a number that is handed in."""
    told = cause.in_short.code
    if not cause.proved or cause.kind not in BRANCHES or len(told) < 2:
        return cause
    for side, mean, quotient in ((A, told[0], told[1]), (B, told[1], told[0])):
        ends = [m.end() for m in _BY_NUMBER.finditer(quotient)]
        sums = {quotient[: end - len(" / s")] + quotient[end:] for end in ends}
        if "mean(" in mean and mean.replace("mean(", "sum(") in sums:
            other = (", and by another one in ", side.other, " (", Code(quotient), ")")
            return replace(cause, short=say(DIVISOR, " (mean) in ", side, *other), short_fix=FIX)
    return cause


def with_mean(diff: Diff, causes: Sequence[Cause]) -> list[Cause]:
    """The causes, that of a mean on one side and a sum on the other with the numbers behind it.

    The derivative of a mean is divided by as many elements: that is no number that was edited.
    """
    main = next((cause for cause in causes if _is_mean_and_sum(cause)), None)
    if main is None:
        return list(causes)
    sizes = [
        *_numbers(diff.a, main.a.intersection(diff.removed)),
        *_numbers(diff.b, main.b.intersection(diff.added)),
    ]
    behind = [cause for cause in causes if _is_by(cause, sizes)]
    return merged(causes, main, [main, *behind])


def _is_mean_and_sum(cause: Cause) -> bool:
    """Whether the formulas of both sides differ in a mean that is a sum alone."""
    told = cause.in_short.code
    if not cause.proved or cause.kind not in BRANCHES or len(told) != 2:
        return False
    as_sums = {text.replace("mean(", "sum(") for text in told}
    return len(as_sums) == 1 and told[0] != told[1]


def _numbers(module: Module, own: Collection[int]) -> Iterator[float]:
    """The constants that these instructions take in."""
    for i in own:
        for o in module.operands[i]:
            number = number_of(module, o)
            if number is not None and module.opcodes[number] == "constant":
                try:
                    yield abs(float(module.payloads[number]))
                except ValueError:
                    continue


def _is_by(cause: Cause, sizes: Sequence[float]) -> bool:
    """Whether a cause is of one number, which one of these leads to as a factor or divisor."""
    numbers = numbers_of(cause)
    if numbers is None:
        return False
    old, new = numbers
    ratios = (new / old, old / new)
    return any(isclose(r, n, rel_tol=EXACT) for r in ratios for n in sizes if n not in (0, 1))
