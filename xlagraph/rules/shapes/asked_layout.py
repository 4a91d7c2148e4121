"""Layouts that a program asks for, of which the header alone knows before optimization."""

from __future__ import annotations

from typing import TYPE_CHECKING

from xlagraph.cause.finding import Finding
from xlagraph.cause.model import Evidence
from xlagraph.cause.names import parameter_name
from xlagraph.cause.rule import Rule
from xlagraph.cause.sources import at, where
from xlagraph.diff.header import ENTRY_LAYOUT, other_layouts
from xlagraph.message import Quoted, join, say
from xlagraph.rules.shapes.layout import LAYOUT

if TYPE_CHECKING:
    from xlagraph.cause.case import Case
    from xlagraph.diff import HeaderChange
    from xlagraph.diff.header import OtherLayout
    from xlagraph.graph import Module
    from xlagraph.message import Message


def find(case: Case) -> list[Finding]:
    """The entry takes or gives the same tensors in another order in memory."""
    return [_finding(case, c) for c in case.diff.header if c.field == ENTRY_LAYOUT]


def _finding(case: Case, change: HeaderChange) -> Finding:
    found = other_layouts(case.diff)
    a, b = case.diff.a, case.diff.b
    mine = [_value(a, o.a, is_parameter=o.is_parameter) for o in found]
    theirs = [_value(b, o.b, is_parameter=o.is_parameter) for o in found]
    pairs = list(zip(found, theirs, strict=True))
    lines = where(b, [i for o, y in pairs for i in (b.users[y] if o.is_parameter else (y,))])
    said = join(_said(case, o, y) for o, y in pairs) or say("of other inputs or outputs")
    old, new = (Quoted(text or "that of the instructions") for text in (change.a, change.b))
    text = say(f"{change.field}: ", old, " -> ", new)
    return Finding(
        kind=LAYOUT,
        title=say("another layout is asked for: ", said, at(lines)),
        evidence=(Evidence(text, tuple(mine), tuple(theirs), lines),),
        proof=say("the comparison leaves the header out"),
    )


def _value(module: Module, place: int, *, is_parameter: bool) -> int:
    return (module.entry_computation.parameters if is_parameter else module.outputs)[place]


def _said(case: Case, other: OtherLayout, value: int) -> Message:
    """``input 0 (f32[8,16]), {1,0} became {0,1}``."""
    what = parameter_name(case.b, value) if other.is_parameter else say(f"output {other.b}")
    return say(what, f", {other.layout_a} became {other.layout_b}")


RULE = Rule(
    name="asked-layout",
    kinds=(),
    find=find,
    after=("header",),
    before=("rematerialization",),
    first_round_only=True,
    closes_round=True,
)
