"""What makes the sizes that differ, by the instructions they begin at and by the program's text."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from xlagraph.cause.sources import where
from xlagraph.facts.shapes.filled_spans import filled_span
from xlagraph.facts.shapes.fixed_k import fixed_k
from xlagraph.facts.shapes.loop_turns import loop_turns
from xlagraph.facts.shapes.size_makers import TOPK, maker_in_text, size_maker

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from xlagraph.cause.case import Case, SideView
    from xlagraph.facts.shapes.size_makers import SizeMaker
    from xlagraph.message import SourceLine

_ASSIGNED = re.compile(r"\s*([\w\s,]+?)\s*=(?!=)(.+)")
_DEF = re.compile(r"\s*(?:async\s+def|def|class)\b")
_NAME = re.compile(r"\w+")


def made_by(
    case: Case, starts: Mapping[int, int], lines: tuple[SourceLine, ...], *, is_size: bool
) -> tuple[SizeMaker | None, tuple[SourceLine, ...]]:
    """What makes the sizes that differ at these instructions of A and B, and the lines to cite.

    Args:
        case: the two modules.
        starts: A's numbers to B's.
        lines: those known already.
        is_size: tensors are made there that have such a size.
    """
    turns = loop_turns(case, starts) if is_size else None
    maker = size_maker(case, starts) or turns or filled_span(case, starts, lines)
    if maker is TOPK:
        return fixed_k(case, starts, lines), lines
    return maker_above(case.b, starts.values(), lines) if is_size and not maker else (maker, lines)


def maker_above(
    view: SideView, starts: Iterable[int], lines: tuple[SourceLine, ...]
) -> tuple[SizeMaker | None, tuple[SourceLine, ...]]:
    """What makes a size that a line takes from a name, and its line in front of those known.

    As ``present = torch.unique(labels)``, where ``torch.zeros(len(present))`` has another size.

    Args:
        view: of the side whose lines are told.
        starts: what has the size there.
        lines: those known already.
    """
    for line in dict.fromkeys(one for i in starts for one in where(view.module, [i])[:1]):
        if line.is_library or line.backward_of:
            continue
        known = view.context.program.get(line.file, {})
        names = set(_NAME.findall(known.get(line.line, "")))
        for number in range(line.line - 1, 0, -1):
            if number not in known or _DEF.match(known[number]):
                break
            assigned = _ASSIGNED.match(known[number])
            if not assigned or names.isdisjoint(_NAME.findall(assigned[1])):
                continue
            if maker := maker_in_text(assigned[2]):
                return maker, (line._replace(line=number, called=None), *lines)
    return None, lines
