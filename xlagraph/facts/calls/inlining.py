"""Calls put in line in the editors of both modules."""

from __future__ import annotations

from typing import TYPE_CHECKING

from xlagraph.canon.inline import inlined
from xlagraph.diff import diff_modules

if TYPE_CHECKING:
    from xlagraph.cause.editor import Editors
    from xlagraph.diff import Diff
    from xlagraph.graph import Module


def inline_both(edit: Editors) -> None:
    """Puts the calls of both modules in line, where that is not too much."""
    for editor in edit:
        flat = inlined(editor.build())
        if flat is not None:
            editor.become(flat)


def diff_in_line(a: Module, b: Module) -> Diff | None:
    """What differs with the calls of both modules in line; None where that is too much."""
    flat_a, flat_b = inlined(a), inlined(b)
    return None if flat_a is None or flat_b is None else diff_modules(flat_a, flat_b)
