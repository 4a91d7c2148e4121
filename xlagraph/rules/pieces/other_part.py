"""An operation that takes a part of another of the values that both sides have.

Such as the true value of a step in a sequence, or the one that was predicted before it: the values
have other shapes, and the parts that are cut out of them one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from xlagraph.cause.finding import Finding
from xlagraph.cause.model import Evidence
from xlagraph.cause.names import parameter_name, short_shape
from xlagraph.cause.rule import Rule
from xlagraph.cause.sources import at, where
from xlagraph.facts.pieces.pieces import inputs_of, open_edges
from xlagraph.message import HloName, say
from xlagraph.rules.pieces.other_operand import OTHER_OPERAND

if TYPE_CHECKING:
    from xlagraph.cause.case import Case, SideView
    from xlagraph.cause.editor import Editors
    from xlagraph.facts.pieces.pieces import Edge
    from xlagraph.message import Message

CUTS = frozenset({"slice", "reshape", "broadcast", "gather", "dynamic-slice", "reduce"})
"""What may give one shape from values of several."""


def find(case: Case) -> list[Finding]:
    """Pairs of cuts of one shape that are cut out of values whose partners are others."""
    a, b = case.a, case.b
    return [
        _finding(case, edge)
        for edge in open_edges(case)
        if edge.place == 0
        and a.module.opcodes[edge.x] in CUTS
        and a.module.opcodes[edge.x] == b.module.opcodes[edge.y]
        and a.module.shapes[edge.x] == b.module.shapes[edge.y]
        and a.partners[edge.p] >= 0
        and b.partners[edge.q] >= 0
        and a.module.shapes[edge.p] != b.module.shapes[edge.q]
    ]


def _finding(case: Case, edge: Edge) -> Finding:
    a, b = case.a, case.b
    lines = where(b.module, [edge.y]) or where(a.module, [edge.x])
    opcode, own, other = b.module.opcodes[edge.y], _told(b, edge.q), _told(a, edge.p)
    taken = say(opcode, " takes a part of ", own, " in ", b.side, " and of ", other, " in ", a.side)

    def undo(edit: Editors) -> None:
        taken_in = inputs_of(case, {edge.x}, {edge.y})
        edit.a.become_undone(edge.x, [p for p, _ in taken_in])
        edit.b.become_undone(edge.y, [q for _, q in taken_in])

    return Finding(
        kind=OTHER_OPERAND,
        title=say(taken, at(lines)),
        short=taken,
        evidence=(
            Evidence(say("both sides have both values"), (edge.x, edge.p), (edge.y, edge.q), lines),
        ),
        proof=say("both parts were replaced by one operation on the same inputs"),
        a=frozenset({edge.x}),
        b=frozenset({edge.y}),
        undo=undo,
    )


def _told(view: SideView, i: int) -> Message:
    module = view.module
    if i in module.entry_computation.parameters:
        return parameter_name(view, i)
    made = where(module, [i])[:1]
    name = say(HloName(module.names[i], module.opcodes[i]), f" ({short_shape(module, i)}")
    return say(name, *((" of ", made[0]) if made else ()), ")")


RULE = Rule(
    name="other-part",
    kinds=(),
    find=find,
    after=("other-output",),
    before=("extra-effect",),
    first_round_only=True,
)
