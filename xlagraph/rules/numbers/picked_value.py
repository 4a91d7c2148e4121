"""An operation that takes part of an input in some steps, and a computed value in others."""

from __future__ import annotations

from typing import TYPE_CHECKING

from xlagraph.cause.finding import Finding
from xlagraph.cause.model import Evidence
from xlagraph.cause.names import short_shape
from xlagraph.cause.rule import Rule
from xlagraph.cause.sources import at, knows_lines, where
from xlagraph.facts.pieces.bypass import bypasses
from xlagraph.facts.pieces.pieces import OUTPUT
from xlagraph.facts.values.telling import MOVING
from xlagraph.message import HloName, count, say
from xlagraph.rules.pieces.other_operand import OTHER_OPERAND

if TYPE_CHECKING:
    from collections.abc import Sequence

    from xlagraph.cause.case import Case
    from xlagraph.cause.editor import Editors
    from xlagraph.facts.pieces.bypass import Bypass

PICKS = "A branch in Python picks another value"
SHORT = say(f"{PICKS} in some steps")
FIX = say(
    "Python picks one of two values, by a coin, a schedule or a condition, and every pattern is a "
    "graph of its own. Compute both, and let the device pick: torch.where(coin, one, other), with "
    "the coins drawn on the host and sent as one tensor a step."
)
SHORT_FIX = say("Send the coins as a tensor, and pick with torch.where.")


def find(case: Case) -> list[Finding]:
    """Uses of a part of what comes in where the other side uses a value that both compute.

    The derivative of the value runs through the use, and so there is more of it on that side.
    """
    found = bypasses(case)
    picks = [one for one in found if _is_pick(one)]
    derivatives = [one for one in found if _is_derivative(one)]
    sides = {one.more.side for one in picks}
    if len(sides) != 1 or any(one.more.side in sides for one in derivatives):
        return []
    return [_finding(picks, derivatives)]


def _is_pick(found: Bypass) -> bool:
    """Whether the piece only cuts something, and not what the other side uses in its place."""
    module = found.more.module
    below = {o for i in found.piece for o in module.operands[i]}
    return (
        all(module.opcodes[i] in MOVING - {"parameter", "constant"} for i in found.piece)
        and any(module.opcodes[i] not in ("broadcast", "iota") for i in found.piece)
        and all(
            edge.place != OUTPUT
            and value not in below
            and not found.more.matched.closed[edge.value(found.more)]
            and not found.less.matched.closed[edge.value(found.less)]
            for edge, value in found.uses.items()
        )
        and not any(line.backward_of for line in found.lines)
    )


def _is_derivative(found: Bypass) -> bool:
    """Whether a piece that stands on the way belongs to the backward pass, or has no line."""
    module = found.more.module
    return knows_lines(module) and all(line.backward_of for line in found.lines)


def _finding(picks: Sequence[Bypass], derivatives: Sequence[Bypass]) -> Finding:
    more, less = picks[0].more, picks[0].less
    uses = [(edge, value) for one in picks for edge, value in one.uses.items()]
    parts = frozenset[int]().union(*(one.piece for one in picks))
    further = frozenset[int]().union(*(one.piece for one in derivatives))
    lines = where(more.module, parts)
    values = {edge.value(more) for edge, _ in uses}
    edge, value = uses[0]
    own = edge.value(more)
    a, b = more.ab(set(parts) | {e.user(more) for e, _ in uses}, set(further))

    def undo(edit: Editors) -> None:
        for one in (*picks, *derivatives):
            one.undo(edit)

    return Finding(
        kind=OTHER_OPERAND,
        title=say(
            "a branch in Python picks one of two values",
            at(lines),
            f": {count(len(values), 'time')} ",
            more.side,
            " takes part of what comes in where ",
            less.side,
            " takes what it computes",
        ),
        evidence=(
            Evidence(
                say(
                    HloName(
                        more.module.names[edge.user(more)], more.module.opcodes[edge.user(more)]
                    ),
                    " takes ",
                    HloName(more.module.names[own], more.module.opcodes[own]),
                    f" ({short_shape(more.module, own)}) in ",
                    more.side,
                    " and ",
                    HloName(more.module.names[value], more.module.opcodes[value]),
                    " in ",
                    less.side,
                ),
                (),
                (),
                lines,
            ),
        ),
        fix=FIX,
        short=SHORT,
        short_fix=SHORT_FIX,
        proof=say(
            f"{count(len(uses), 'use')} were given the computed value",
            f", and {count(len(further), 'instruction')} of its derivative were bypassed"
            if further
            else "",
        ),
        a=frozenset(a),
        b=frozenset(b),
        undo=undo,
    )


RULE = Rule(
    name="picked-value",
    kinds=(),
    find=find,
    after=("turned-operations",),
    before=("extra-subgraph",),
)
