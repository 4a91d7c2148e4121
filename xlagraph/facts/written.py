"""Statements of the program, in the few of its lines that a capture keeps around a place."""

from __future__ import annotations

import ast
import textwrap
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

MAX_LINES = 3
"""Lines of one statement that are read."""


def statement_at(
    lines: Mapping[int, str], number: int, *endings: str
) -> tuple[str, list[ast.stmt]]:
    """The text and the syntax of what begins on a line; no statements if it cannot be read.

    Args:
        lines: those known of the file, by number.
        number: the first line.
        endings: what may be missing for it to be whole: `` pass`` of a loop's head.
    """
    for end in range(number + 1, number + 1 + MAX_LINES):
        if end - 1 not in lines:
            break
        text = textwrap.dedent("\n".join(lines[k] for k in range(number, end)))
        for ending in ("", *endings):
            try:
                return text, ast.parse(text + ending).body
            except (SyntaxError, ValueError, RecursionError, MemoryError):
                continue  # it goes on
    return "", []


def called_name(call: ast.Call) -> str:
    """The last name of the function that is called: ``reduce`` of ``xm.reduce()``."""
    function = call.func
    if isinstance(function, ast.Attribute):
        return function.attr
    return function.id if isinstance(function, ast.Name) else ""
