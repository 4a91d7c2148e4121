"""Transposes of transposes, which derivatives leave where both sides write a product otherwise."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from xlagraph.cause.editor import ModuleEditor

KEY = "dimensions"


def fold_transposes(editor: ModuleEditor) -> None:
    """Makes one transpose of each that takes in another one; none where both undo each other.

    What is transposed by p, and then by q, has the axes p[q[0]], p[q[1]] and so on
    (https://openxla.org/xla/operation_semantics#transpose).
    """
    idle = []
    for i, opcode in enumerate(editor.opcodes):
        if opcode != "transpose":
            continue
        below = editor.operands[i][0]
        outer = _order(editor, i)
        while editor.opcodes[below] == "transpose":
            inner = _order(editor, below)
            outer = [inner[axis] for axis in outer]
            below = editor.operands[below][0]
        if below == editor.operands[i][0]:
            continue
        editor.set_operands(i, (below,))
        if outer == sorted(outer):
            idle.append(i)
        else:
            _put(editor, i, outer)
    editor.bypass(idle)


def _order(editor: ModuleEditor, i: int) -> list[int]:
    text = editor.attributes[i].get(KEY) or "{}"
    return [int(axis) for axis in text.strip("{}").split(",") if axis]


def _put(editor: ModuleEditor, i: int, order: list[int]) -> None:
    own = editor.attributes[i]
    text = f"{{{','.join(map(str, order))}}}"
    items = tuple((key, text if key == KEY else value) for key, value in own.items)
    editor.attributes[i] = replace(own, items=items)
