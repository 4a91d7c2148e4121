"""What to write so that topk takes one k in all steps, and how large that has to be."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from xlagraph.cause.model import Seen
from xlagraph.cause.sources import statement
from xlagraph.cause.verdict import Made
from xlagraph.facts.size_makers import TOPK
from xlagraph.facts.sizes import changed_sizes
from xlagraph.facts.typed_topk import typed_topk
from xlagraph.facts.written import lines_in_words
from xlagraph.hlo.shapes import read_shape
from xlagraph.message import Listing, say

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from xlagraph.cause.case import Case
    from xlagraph.facts.size_makers import SizeMaker
    from xlagraph.message import SourceLine


def fixed_k(case: Case, starts: Mapping[int, int], lines: Sequence[SourceLine]) -> SizeMaker:
    """The advice on a topk whose k changes, for the program's own statements if they are known.

    Args:
        case: the two modules.
        starts: what takes the first k of a sorted value, A's numbers to B's.
        lines: where that is done.
    """
    maker = replace(TOPK, seen=_seen(case, starts))
    line = statement(lines)
    typed = typed_topk(case.program(line), line.line) if line else None
    if typed is None:
        return maker
    made = Made(typed.k, typed.makers) if typed.makers else None
    if not typed.code:
        return replace(maker, made=made)
    where = lines_in_words(typed.first, typed.last)
    short = say(f"Replace {where} (one k_max, then a mask):", Listing(typed.code))
    return replace(maker, made=made, short_fix=short)


def _seen(case: Case, starts: Mapping[int, int]) -> Seen | None:
    """The largest k of both modules, and the smallest dimension that it is taken of."""
    a, b = case.diff.a, case.diff.b
    found = [
        (max(old, new), *(read_shape(m.shapes[m.operands[i][0]]).dimensions[axis] for m, i in both))
        for x, y in starts.items()
        if a.opcodes[x] == b.opcodes[y] == "slice"
        for axis, old, new in changed_sizes(a.shapes[x], b.shapes[y])
        for both in [((a, x), (b, y))]
    ]
    if not found:
        return None
    return Seen("k_max", max(k for k, *_ in found), min(n for _, *sizes in found for n in sizes))
