"""Outputs that are another of the values that both sides compute: before or behind a norm."""

from __future__ import annotations

from typing import TYPE_CHECKING

from xlagraph.cause.finding import Finding
from xlagraph.cause.model import Evidence
from xlagraph.cause.names import output_name, short_shape
from xlagraph.cause.rule import Rule
from xlagraph.cause.sources import at, where
from xlagraph.message import HloName, join, say
from xlagraph.rules.pieces.other_operand import OTHER_OPERAND

if TYPE_CHECKING:
    from collections.abc import Sequence

    from xlagraph.cause.case import Case, SideView
    from xlagraph.cause.editor import Editors
    from xlagraph.message import Message

Pair = tuple[int, int]
"""Positions of an output of A and of B's that stands for it."""
MAX_TOLD = 3
FIX = say(
    "The step gives out another of the values that it computes anyway, as a state that is carried "
    "before a norm or behind it: give out the same one in every step and in every version."
)
SHORT_FIX = say("Give out the same value.")


def find(case: Case) -> list[Finding]:
    """All outputs of one place and shape on both sides, each a value that the other side has.

    Where one side gives out more, the other may be a part of it that ran alone.
    """
    a, b = case.a, case.b
    if len(a.module.outputs) != len(b.module.outputs):
        return []
    pairs = [
        (k, n)
        for k, n in case.replaced_outputs()
        if k == n and _is_computed(a, k) and _is_computed(b, n)
    ]
    return [_finding(case, pairs)] if pairs else []


def _is_computed(view: SideView, position: int) -> bool:
    """Whether a value has a partner and is no input, as what a step has read before is."""
    value = _value(view, position)
    return view.partners[value] >= 0 and view.module.opcodes[value] != "parameter"


def _value(view: SideView, position: int) -> int:
    return view.module.outputs[position]


def _finding(case: Case, pairs: Sequence[Pair]) -> Finding:
    a, b = case.a, case.b
    values_a, values_b = ([_value(v, one[i]) for one in pairs] for i, v in enumerate((a, b)))
    lines = where(b.module, values_b) or where(a.module, values_a)

    def undo(edit: Editors) -> None:
        edit.b.replace_outputs({y: a.partners[x] for x, y in zip(values_a, values_b, strict=True)})

    named = join([output_name(b, n) for _, n in pairs], MAX_TOLD)
    gives = "is" if len(pairs) == 1 else "are"
    taken = say(
        _told(b, values_b[0]), " in ", b.side, " and ", _told(a, values_a[0]), " in ", a.side
    )
    short = say(named, f" {gives} another value: ", taken)
    return Finding(
        kind=OTHER_OPERAND,
        title=say(named, f" {gives} another value that both sides compute", at(lines), ": ", taken),
        evidence=(
            Evidence(
                say("both sides have both values, and give out another one"),
                tuple(values_a),
                tuple(values_b),
                lines,
            ),
        ),
        fix=FIX,
        short=short,
        short_fix=SHORT_FIX,
        proof=say(b.side, " gave out what ", a.side, " does"),
        a=frozenset(values_a),
        b=frozenset(values_b),
        undo=undo,
    )


def _told(view: SideView, value: int) -> Message:
    module = view.module
    lines = where(module, [value])
    name = say(HloName(module.names[value], module.opcodes[value]))
    return (
        say(name, " (", lines[0], ")") if lines else say(name, f" ({short_shape(module, value)})")
    )


RULE = Rule(
    name="other-output",
    kinds=(),
    find=find,
    after=("other-operand",),
    before=("extra-effect",),
)
