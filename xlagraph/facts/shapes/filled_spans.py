"""Spans of a tensor that are assigned to: masked frames, erased boxes."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from xlagraph.cause.sources import statement
from xlagraph.facts.program.written import statement_at
from xlagraph.facts.shapes.size_makers import SizeMaker
from xlagraph.message import Code, say

if TYPE_CHECKING:
    from collections.abc import Sequence

    from xlagraph.cause.case import Case
    from xlagraph.message import SourceLine

FILLED = SizeMaker(
    "span that is assigned to",
    "What is assigned to begins and ends at Python numbers, and every width is a shape of the "
    "graph. Send both in tensors of one element, torch.tensor([start]).to(device), and choose by "
    "them: i = torch.arange(n).to(device), then torch.where((i >= start) & (i < end), value, x), "
    "with i along that dimension. Or assign on the host, before the batch is sent.",
    say(Code("torch.where((i >= start) & (i < end), value, x)"), ", both sent."),
)


def filled_span(case: Case, lines: Sequence[SourceLine]) -> SizeMaker | None:
    """What to do where the program gives one value to a slice: ``x[:, start:end] = 0.0``."""
    line = statement(lines)
    if line is None:
        return None
    _, found = statement_at(case.program(line), line.line)
    if not found or not isinstance(found[0], ast.Assign):
        return None
    target, value = found[0].targets[0], found[0].value
    is_number = isinstance(value, ast.Constant | ast.UnaryOp)
    return FILLED if is_number and _is_span(target) else None


def _is_span(target: ast.expr) -> bool:
    """Whether it is a slice with bounds that are computed."""
    if not isinstance(target, ast.Subscript):
        return False
    places = target.slice.elts if isinstance(target.slice, ast.Tuple) else [target.slice]
    return any(
        isinstance(one, ast.Slice) and any(not _is_fixed(end) for end in (one.lower, one.upper))
        for one in places
    )


def _is_fixed(bound: ast.expr | None) -> bool:
    return bound is None or isinstance(bound, ast.Constant)
