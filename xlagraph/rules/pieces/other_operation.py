"""Another operation in the same place: the end of a loop's body or of a branch.

Computations are paired with their roots, so that another last step is a pair whose opcodes
differ, while everywhere else it is two instructions without a partner.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from xlagraph.cause.finding import Finding
from xlagraph.cause.model import Evidence
from xlagraph.cause.names import short_shape
from xlagraph.cause.rule import Rule
from xlagraph.cause.sources import at, where
from xlagraph.facts.pieces.pieces import inputs_of, piece_of
from xlagraph.facts.values.telling import opcodes_in_words
from xlagraph.message import A, B, say
from xlagraph.rules.pieces.extra_subgraph import EXTRA_SUBGRAPH
from xlagraph.rules.pieces.replaced_subgraph import REPLACED_SUBGRAPH

if TYPE_CHECKING:
    from xlagraph.cause.case import Case, SideView
    from xlagraph.cause.editor import Editors
    from xlagraph.cause.kinds import Kind
    from xlagraph.graph import Module
    from xlagraph.message import Message


def find(case: Case) -> list[Finding]:
    """Pairs whose operation differs, with what leads to it on one side only."""
    a, b = case.diff.a, case.diff.b
    return [
        _finding(case, x, y)
        for x, y, fields in case.open_changes()
        if "opcode" in fields
        and "shape" not in fields
        and _is_computed(a, x)
        and _is_computed(b, y)
    ]


def _is_computed(module: Module, i: int) -> bool:
    return module.opcodes[i] not in ("parameter", "tuple")


def _finding(case: Case, x: int, y: int) -> Finding:
    a, b = case.diff.a, case.diff.b
    piece_a = {x} | piece_of(case.a, a.operands[x])
    piece_b = {y} | piece_of(case.b, b.operands[y])
    inputs = inputs_of(case, piece_a, piece_b)
    kind, title = _told(case, (x, y), piece_a, piece_b)
    lines = where(b, [y]) or where(a, [x]) or where(b, piece_b) or where(a, piece_a)

    def undo(edit: Editors) -> None:
        edit.a.become_undone(x, [p for p, _ in inputs])
        edit.b.become_undone(y, [q for _, q in inputs])

    return Finding(
        kind=kind,
        title=say(title, at(lines)),
        evidence=(
            Evidence(
                say(f"{a.opcodes[x]} {short_shape(a, x)} in ", A, f", {b.opcodes[y]} in ", B),
                tuple(sorted(piece_a))[:50],
                tuple(sorted(piece_b))[:50],
                lines,
            ),
        ),
        proof=say("both were replaced by one operation on the same inputs"),
        a=frozenset(piece_a),
        b=frozenset(piece_b),
        undo=undo,
    )


def _told(
    case: Case, ends: tuple[int, int], piece_a: set[int], piece_b: set[int]
) -> tuple[Kind, Message]:
    """The kind and the title; where one side goes on behind the other's last step, it is more."""
    (x, y), a, b = ends, case.a, case.b
    opcodes = a.module.opcodes[x], b.module.opcodes[y]
    if len(piece_a) == len(piece_b) == 1:
        return REPLACED_SUBGRAPH, say(f"{opcodes[0]} became {opcodes[1]}")
    for more, less, piece, own, theirs, opcode in (
        (b, a, piece_b, y, x, opcodes[0]),
        (a, b, piece_a, x, y, opcodes[1]),
    ):
        if _goes_on(more, piece, own, less.matched.labels[theirs]):
            further = piece - {
                i for i in piece if more.matched.labels[i] == less.matched.labels[theirs]
            }
            words = opcodes_in_words(more.module, further, less.module)
            return EXTRA_SUBGRAPH, say(
                more.side, " computes ", words, " that ", less.side, f" does not, behind {opcode}"
            )
    return REPLACED_SUBGRAPH, say(
        f"a value ({short_shape(a.module, x)}) is computed in another way: ",
        opcodes_in_words(a.module, piece_a, b.module),
        " in ",
        A,
        ", ",
        opcodes_in_words(b.module, piece_b, a.module),
        " in ",
        B,
    )


def _goes_on(more: SideView, piece: set[int], end: int, label: int) -> bool:
    """Whether the other side's last step stands in this piece, before its end."""
    return any(more.matched.labels[i] == label for i in piece if i != end)


RULE = Rule(
    name="other-operation",
    kinds=(),
    find=find,
    after=("sizes",),
)
