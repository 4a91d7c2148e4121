"""Spans of a tensor that are assigned to: masked frames, erased boxes."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from xlagraph.cause.sources import statement
from xlagraph.facts.program.typed_spans import typed_span
from xlagraph.facts.program.written import lines_in_words
from xlagraph.facts.shapes.size_makers import SizeMaker
from xlagraph.message import Code, Listing, say

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from xlagraph.cause.case import Case
    from xlagraph.cause.model import Cause
    from xlagraph.graph import Module
    from xlagraph.message import SourceLine

FILLED = SizeMaker(
    "span that is assigned to",
    "What is assigned to begins and ends at Python numbers, and every width is a shape of the "
    "graph. Send both in tensors of one element, torch.tensor([start]).to(device), and choose by "
    "them: i = torch.arange(n).to(device), then torch.where((i >= start) & (i < end), value, x), "
    "with i along that dimension. Or assign on the host, before the batch is sent.",
    say(Code("torch.where((i >= start) & (i < end), value, x)"), ", both sent."),
)


def filled_span(
    case: Case, starts: Mapping[int, int], lines: Sequence[SourceLine]
) -> SizeMaker | None:
    """What to do where the program gives one value to a slice: ``x[:, start:end] = 0.0``.

    By the program's text, or else by what is made of the sizes that differ, A's and B's.
    """
    line = statement(lines)
    typed = typed_span(case.program(line), line.line) if line else None
    if typed is None:
        diff = case.diff
        is_span = all(_fills(diff.a, x) and _fills(diff.b, y) for x, y in starts.items())
        return FILLED if is_span else None
    if not typed.code:
        return FILLED
    where = lines_in_words(typed.first, typed.last)
    short = say(f"Replace {where} (a mask, by ends that are sent as data):", Listing(typed.code))
    return replace(FILLED, short_fix=short)


def _fills(module: Module, i: int) -> bool:
    """Whether a value is spread to a span of a tensor, whose other elements stay as they are.

    torch_xla pads both the value and ones to the tensor's sizes, and selects by the ones.
    """
    users = [u for pad in module.users[i] for u in module.users[pad]]
    chosen = [module.operands[u][:2] for u in users if module.opcodes[u] == "select"]
    pads = {module.opcodes[o] for pair in chosen for o in pair}
    is_spread = module.opcodes[i] == "broadcast" and len(chosen) == len(users) > 0
    return is_spread and pads == {"pad"}


def is_of_span(cause: Cause) -> bool:
    """Whether a cause is a span of another length that is assigned to."""
    return cause.fix == say(FILLED.fix)
