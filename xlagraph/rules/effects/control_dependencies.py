"""Instructions that are made to run after others, by ``control-predecessors``."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from xlagraph.cause.finding import Finding
from xlagraph.cause.model import Evidence
from xlagraph.cause.rule import Rule
from xlagraph.cause.sources import at, where
from xlagraph.message import A, B, HloName, count, join, say
from xlagraph.rules.shapes.sizes import ATTRIBUTE

if TYPE_CHECKING:
    from collections.abc import Collection

    from xlagraph.cause.case import Case, SideView
    from xlagraph.cause.editor import Editors, ModuleEditor
    from xlagraph.message import Message

FIX = say("Ask for the same order of execution in every step.")


def find(case: Case) -> list[Finding]:
    """The same instructions, forced into another order than the values ask for."""
    pairs = case.changed_alone("controls")
    if not pairs:
        return []
    a, b = case.diff.a, case.diff.b
    own_a, own_b = frozenset(x for x, _ in pairs), frozenset(y for _, y in pairs)
    x, y = pairs[0]
    lines = where(b, own_b)
    change = say(
        f"{a.opcodes[x]} ",
        HloName(a.names[x], a.opcodes[x]),
        " waits for ",
        _before(case.a, x),
        " in ",
        A,
        " and for ",
        _before(case.b, y),
        " in ",
        B,
    )
    more = f" (and {count(len(pairs) - 1, 'more instruction')})" if len(pairs) > 1 else ""

    def undo(edit: Editors) -> None:
        _wait_for_nothing(edit.a, own_a)
        _wait_for_nothing(edit.b, own_b)

    return [
        Finding(
            kind=ATTRIBUTE,
            title=say(change, more, at(lines)),
            evidence=(Evidence(change, tuple(sorted(own_a)), tuple(sorted(own_b)), lines),),
            fix=FIX,
            proof=say("these instructions were made to wait for nothing"),
            a=own_a,
            b=own_b,
            undo=undo,
        )
    ]


def _before(view: SideView, i: int) -> Message:
    module = view.module
    before = module.controls.get(i, ())
    return join(HloName(module.names[p], module.opcodes[p]) for p in before) or say("nothing")


def _wait_for_nothing(editor: ModuleEditor, instructions: Collection[int]) -> None:
    controls = {i: c for i, c in editor.module.controls.items() if i not in instructions}
    editor.module = replace(editor.module, controls=controls)


RULE = Rule(
    name="control-dependencies",
    kinds=(),
    find=find,
    after=("attributes",),
)
