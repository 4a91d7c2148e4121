"""Operations on one value that stand in another order."""

from __future__ import annotations

from typing import TYPE_CHECKING

from xlagraph.canon.labels import signature
from xlagraph.canon.live import has_effect
from xlagraph.cause.finding import Finding
from xlagraph.cause.model import Evidence
from xlagraph.cause.rule import Rule
from xlagraph.cause.sources import at, where
from xlagraph.facts.pieces.pieces import open_edges
from xlagraph.message import A, B, say
from xlagraph.rules.pieces.replaced_subgraph import REPLACED_SUBGRAPH

if TYPE_CHECKING:
    from collections.abc import Sequence

    from xlagraph.cause.case import Case, SideView
    from xlagraph.cause.editor import Editors
    from xlagraph.facts.pieces.pieces import Edge

MAX_STEPS = 4
FIX = say(
    "Call the operations in the same order in every step. Where both orders give the same value "
    "(a sum over devices before or after a gather), keep the one that moves less."
)
SHORT = say("Operations stand in another order")
SHORT_FIX = say("Call the operations in the same order in every step.")


def find(case: Case) -> list[Finding]:
    """Chains of operations between the same two values, the same ones in another order."""
    found = []
    for edge in open_edges(case):
        chains = _turned(case, edge)
        if chains:
            found.append(_finding(case, edge, *chains))
    return found


def _turned(case: Case, edge: Edge) -> tuple[list[int], list[int]] | None:
    """The operations of A and of B, the last one first, with the value that they begin with."""
    down_a, down_b = _down(case.a, edge.p), _down(case.b, edge.q)
    for number in range(2, min(len(down_a), len(down_b))):
        if case.a.partners[down_a[number]] != down_b[number]:
            continue
        keys_a = [_key(case.a, i) for i in down_a[:number]]
        keys_b = [_key(case.b, i) for i in down_b[:number]]
        is_turned = keys_a != keys_b and sorted(keys_a) == sorted(keys_b)
        return (down_a[: number + 1], down_b[: number + 1]) if is_turned else None
    return None


def _down(view: SideView, i: int) -> list[int]:
    """A value, what it is made of alone, and so on."""
    found = [i]
    while len(found) <= MAX_STEPS and len(view.module.operands[i]) == 1:
        (i,) = view.module.operands[i]
        found.append(i)
    return found


def _key(view: SideView, i: int) -> tuple[str, str, tuple[int, ...]]:
    """What an operation is, whatever the shape that it is done to."""
    module, numbers = view.module, view.matched.computations
    callees = tuple(numbers[c] for c in module.callees.get(i, ()))
    return module.opcodes[i], signature(module.opcodes[i], module.attributes[i]), callees


def _finding(case: Case, edge: Edge, down_a: Sequence[int], down_b: Sequence[int]) -> Finding:
    a, b = case.diff.a, case.diff.b
    (*own_a, below_a), (*own_b, below_b) = down_a, down_b
    lines = where(b, own_b) or where(a, own_a)

    def undo(edit: Editors) -> None:
        for editor, module, own in ((edit.a, a, own_a), (edit.b, b, own_b)):
            for i in own:
                if has_effect(module, i):
                    editor.become_undone(i, ())
        edit.a.become_undone(edge.p, [below_a])
        edit.b.become_undone(edge.q, [below_b])

    return Finding(
        kind=REPLACED_SUBGRAPH,
        title=say(
            "operations stand in another order",
            at(lines),
            ": ",
            " of ".join(a.opcodes[i] for i in own_a),
            " in ",
            A,
            ", ",
            " of ".join(b.opcodes[i] for i in own_b),
            " in ",
            B,
        ),
        evidence=(
            Evidence(
                say("both begin with the same value, and end in one that is used alike"),
                tuple(own_a),
                tuple(own_b),
                lines,
            ),
        ),
        fix=FIX,
        short=SHORT,
        short_fix=SHORT_FIX,
        proof=say("both were replaced by one operation on that value"),
        a=frozenset((*own_a, edge.x)),
        b=frozenset((*own_b, edge.y)),
        undo=undo,
    )


RULE = Rule(
    name="turned-operations",
    kinds=(),
    find=find,
    after=("call-option",),
    before=("extra-subgraph",),
)
