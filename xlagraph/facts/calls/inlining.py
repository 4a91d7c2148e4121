"""Calls put in line in the editors of both modules."""

from __future__ import annotations

from typing import TYPE_CHECKING

from xlagraph.canon.inline import inlined

if TYPE_CHECKING:
    from xlagraph.cause.editor import Editors


def inline_both(edit: Editors) -> None:
    """Puts the calls of both modules in line, where that is not too much."""
    for editor in edit:
        flat = inlined(editor.build())
        if flat is not None:
            editor.become(flat)
