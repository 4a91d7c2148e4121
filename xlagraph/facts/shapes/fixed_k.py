"""What to write so that topk takes one k in all steps, and how large that has to be."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from xlagraph.cause.model import Seen
from xlagraph.cause.sources import statement
from xlagraph.cause.verdict import Made
from xlagraph.facts.program.typed_topk import typed_topk
from xlagraph.facts.program.written import lines_in_words
from xlagraph.facts.shapes.size_makers import TOPK
from xlagraph.facts.shapes.sizes import changed_sizes
from xlagraph.hlo.shapes import read_shape
from xlagraph.message import Listing, say

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from xlagraph.cause.case import Case
    from xlagraph.facts.shapes.size_makers import SizeMaker
    from xlagraph.graph import Module
    from xlagraph.message import SourceLine


def fixed_k(case: Case, starts: Mapping[int, int], lines: Sequence[SourceLine]) -> SizeMaker:
    """The advice on a topk whose k changes, for the program's own statements if they are known.

    Args:
        case: the two modules.
        starts: what takes the first k of a sorted value, A's numbers to B's.
        lines: where that is done.
    """
    seen, rank = _seen(case, starts)
    maker = replace(TOPK, seen=seen)
    line = statement(lines)
    typed = typed_topk(case.program(line), line.line, rank) if line else None
    if typed is None:
        return maker
    if typed.k.isidentifier():
        maker = replace(maker, name=typed.k, seen=seen._replace(name=typed.k) if seen else None)
    made = Made(typed.k, typed.makers) if typed.makers else None
    if not typed.code:
        return replace(maker, made=made)
    where = lines_in_words(typed.first, typed.last)
    short = say(f"Replace {where} (one k for all steps, and a mask):", Listing(typed.code))
    return replace(maker, made=made, short_fix=short)


def _seen(case: Case, starts: Mapping[int, int]) -> tuple[Seen | None, int]:
    """The largest k of both modules, the dimension that it is taken of, and the rank."""
    a, b = case.diff.a, case.diff.b
    cut = {x: y for x, y in starts.items() if a.opcodes[x] == b.opcodes[y] == "slice"}
    found, axes = [], set[int]()
    rank = 0
    for x, y in cut.items():
        sizes_a, sizes_b = (
            read_shape(module.shapes[module.operands[i][0]]).dimensions
            for module, i in ((a, x), (b, y))
        )
        rank = len(sizes_b)
        for axis, old, new in changed_sizes(a.shapes[x], b.shapes[y]):
            found.append((max(old, new), min(sizes_a[axis], sizes_b[axis])))
            axes.add(axis)
    if not found:
        return None, rank
    both = _cut_in(a, cut.keys()) & _cut_in(b, cut.values())
    rooms = {sizes[axis] for sizes in both for axis in axes if axis < len(sizes)}
    most = max(k for k, _ in found)
    return Seen("k", most, max(rooms) if rooms else min(room for _, room in found)), rank


def _cut_in(module: Module, slices: Iterable[int]) -> set[tuple[int, ...]]:
    """The sizes of all values that are cut as those of these slices are.

    A line may take as many of several tensors, each of its own size.
    """
    makers = {module.opcodes[module.operands[i][0]] for i in slices}
    values = (module.operands[i][0] for i, one in enumerate(module.opcodes) if one == "slice")
    return {
        read_shape(module.shapes[value]).dimensions
        for value in values
        if module.opcodes[value] in makers
    }
