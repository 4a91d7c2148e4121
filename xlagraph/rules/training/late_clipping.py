"""Gradients that one module clips before its optimizer takes them in, and the other behind that.

Both clip them and give them back; the optimizer of one side takes them in as they were before.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from xlagraph.cause.finding import Finding
from xlagraph.cause.model import Evidence
from xlagraph.cause.rule import Rule
from xlagraph.cause.sources import at, where
from xlagraph.facts.pieces.clips import by_norm
from xlagraph.facts.pieces.pieces import OUTPUT, open_edges
from xlagraph.message import count, say
from xlagraph.rules.training.clipping import CLIPPING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from xlagraph.cause.case import Case, SideView
    from xlagraph.cause.editor import Editors
    from xlagraph.facts.pieces.pieces import Edge
    from xlagraph.message import Message, Side

FIX = say(
    "Clip between backward() and step(): the optimizer takes gradients as they are, and what is "
    "clipped behind it renews nothing."
)
SHORT_FIX = say("Clip between backward() and step().")
MANY = 2
"""So many gradients at least are clipped by one norm."""


def clipped_late(early: Side) -> Message:
    """What is said of gradients that one side clips before the optimizer, and the other behind."""
    return say(
        *("gradients are clipped by their norm before the optimizer takes them in ", early),
        *(", and behind its step in ", early.other),
    )


def find(case: Case) -> list[Finding]:
    """Operations that take a gradient as it is where the other side's take it clipped."""
    edges = [edge for edge in open_edges(case) if edge.place != OUTPUT]
    for view, other in case.both_ways if edges else ():
        early = by_norm(view.module)
        late = {*by_norm(other.module).values()} if early else set()
        own = [edge for edge in edges if _is_clipped(view, other, edge, early, late)]
        if len({edge.value(view) for edge in own}) >= MANY:
            return [_finding(view, own, early)]
    return []


def _is_clipped(
    view: SideView, other: SideView, edge: Edge, early: dict[int, int], late: set[int]
) -> bool:
    """Whether one side takes what it has clipped, and the other what it clips elsewhere."""
    value = early.get(edge.value(view), -1)
    plain = edge.value(other)
    return value >= 0 and view.partners[value] == plain and plain in late


def _finding(view: SideView, edges: Sequence[Edge], early: dict[int, int]) -> Finding:
    module = view.module
    lines = where(module, [edge.user(view) for edge in edges])
    number = count(len({edge.value(view) for edge in edges}), "tensor")
    short = clipped_late(view.side)

    def undo(edit: Editors) -> None:
        editor = edit.a if view.is_a else edit.b
        for edge in edges:
            editor.set_operand(edge.user(view), edge.place, early[edge.value(view)])

    return Finding(
        kind=CLIPPING,
        title=say(short, f", {number}", at(lines)),
        evidence=(
            Evidence(
                say("both clip them; what renews the weights takes them clipped on one side alone"),
                tuple(edge.x for edge in edges),
                tuple(edge.y for edge in edges),
                lines,
            ),
        ),
        fix=FIX,
        short=short,
        short_fix=SHORT_FIX,
        proof=say("these operations were given the gradients as they were before they are clipped"),
        a=frozenset(edge.x for edge in edges),
        b=frozenset(edge.y for edge in edges),
        undo=undo,
    )


RULE = Rule(
    name="late-clipping",
    kinds=(),
    find=find,
    after=("nesterov",),
    before=("other-clipping",),
)
