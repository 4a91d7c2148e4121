"""Statements of the program, in the few of its lines that a capture keeps around a place."""

from __future__ import annotations

import ast
import textwrap
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

MAX_LINES = 6
"""Lines of one statement that are read."""
MAX_WIDTH = 100
"""Characters of a line that is proposed; a longer one is not."""
_SIMPLE = (ast.Assign, ast.AnnAssign, ast.AugAssign, ast.Return, ast.Expr)


class Statement(NamedTuple):
    """A statement of the program that stands on lines of its own."""

    first: int
    """Its first line, and its last."""
    last: int
    text: str
    node: ast.stmt

    def segment(self, node: ast.AST) -> str:
        """An expression of it as the program writes it, on one line."""
        found = ast.get_source_segment(self.text, node) or ""
        return ast.unparse(node) if "\n" in found or not found else found

    def replaced(self, edits: Sequence[tuple[ast.expr, str]]) -> tuple[str, ...]:
        """Its lines with other texts in the place of some of its expressions, no comment behind."""
        data = self.text.encode()
        starts = [0]
        for line in data.split(b"\n"):
            starts.append(starts[-1] + len(line) + 1)
        ordered = sorted(edits, key=lambda edit: (edit[0].lineno, edit[0].col_offset), reverse=True)
        for node, text in ordered:
            end_line, end = node.end_lineno or node.lineno, node.end_col_offset or 0
            begin = starts[node.lineno - 1] + node.col_offset
            data = data[:begin] + text.encode() + data[starts[end_line - 1] + end :]
        text = data.decode()
        (whole,) = ast.parse(text).body
        return tuple((ast.get_source_segment(text, whole) or text).split("\n"))


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


def statements_over(lines: Mapping[int, str], number: int) -> Iterator[Statement]:
    """What may be the simple statement that a line is part of: the one that begins there first.

    A line within another statement may look like one of its own.
    """
    for first in range(number, number - MAX_LINES, -1):
        text, found = statement_at(lines, first)
        last = first + text.count("\n")
        if len(found) == 1 and isinstance(found[0], _SIMPLE) and last >= number:
            yield Statement(first, last, text, found[0])


def called_name(call: ast.Call) -> str:
    """The last name of the function that is called: ``reduce`` of ``xm.reduce()``."""
    function = call.func
    if isinstance(function, ast.Attribute):
        return function.attr
    return function.id if isinstance(function, ast.Name) else ""


def free_name(name: str, statement: Statement) -> str:
    """A name, or one with a stroke behind it, that the statement does not use."""
    used = {one.id for one in ast.walk(statement.node) if isinstance(one, ast.Name)}
    return name if name not in used else f"{name}_"


def lines_in_words(first: int, last: int) -> str:
    """``line 66``, ``lines 66 to 68``."""
    return f"line {first}" if first == last else f"lines {first} to {last}"


def indentation(line: str) -> int:
    """Columns before a line's text."""
    return len(line) - len(line.lstrip())
