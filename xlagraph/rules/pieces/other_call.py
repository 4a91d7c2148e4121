"""A call of another function, with other arguments."""

from __future__ import annotations

from typing import TYPE_CHECKING

from xlagraph.cause.finding import Finding
from xlagraph.cause.model import Evidence
from xlagraph.cause.rule import Rule
from xlagraph.cause.slices import called_only_by
from xlagraph.cause.sources import at, where
from xlagraph.message import A, B, HloName, count, say
from xlagraph.rules.pieces.replaced_subgraph import REPLACED_SUBGRAPH

if TYPE_CHECKING:
    from collections.abc import Sequence

    from xlagraph.cause.case import Case
    from xlagraph.cause.editor import Editors
    from xlagraph.graph import Module

SHORT = say("Another function is called in some steps")


def find(case: Case) -> list[Finding]:
    """Calls that stand in each other's place and take another number of arguments."""
    a, b = case.diff.a, case.diff.b
    return [
        _finding(case, x, y)
        for x, y, _ in case.open_changes()
        if a.opcodes[x] == b.opcodes[y] == "call"
        and a.shapes[x] == b.shapes[y]
        and len(a.operands[x]) != len(b.operands[y])
    ]


def _finding(case: Case, x: int, y: int) -> Finding:
    a, b = case.diff.a, case.diff.b
    theirs = set(b.operands[y])
    shared = [p for p in dict.fromkeys(a.operands[x]) if case.a.partners[p] in theirs]
    lines = where(b, [y]) or where(a, [x])
    own_a = called_only_by(a, {x}) | _constants(case.a.partners, a, x)
    own_b = called_only_by(b, {y}) | _constants(case.b.partners, b, y)

    def undo(edit: Editors) -> None:
        edit.a.become_undone(x, shared)
        edit.b.become_undone(y, [case.a.partners[p] for p in shared])

    return Finding(
        kind=REPLACED_SUBGRAPH,
        title=say(
            "another function is called",
            at(lines),
            ": ",
            _called(a, x),
            " in ",
            A,
            ", ",
            _called(b, y),
            " in ",
            B,
        ),
        evidence=(
            Evidence(
                say(
                    f"the call takes {count(len(a.operands[x]), 'value')} in ",
                    A,
                    f" and {len(b.operands[y])} in ",
                    B,
                    f", {len(shared)} of them the same",
                ),
                (x,),
                (y,),
                lines,
            ),
        ),
        short=SHORT,
        proof=say("both calls were replaced by one operation on what both take"),
        a=frozenset({x}) | own_a,
        b=frozenset({y}) | own_b,
        undo=undo,
    )


def _constants(partners: Sequence[int], module: Module, call: int) -> frozenset[int]:
    """What the call alone takes in, of this side alone."""
    return frozenset(
        o for o in module.operands[call] if partners[o] < 0 and len(module.users[o]) == 1
    )


def _called(module: Module, call: int) -> HloName:
    return HloName(module.computations[module.callees[call][0]].name)


RULE = Rule(
    name="other-call",
    kinds=(),
    find=find,
    after=("call-option",),
    before=("turned-operations",),
)
