"""How a loop is written so that all ranks take as many turns as the one with the fewest."""

from __future__ import annotations

import ast
import textwrap
from typing import TYPE_CHECKING

from xlagraph.message import EMPTY, Code, say

if TYPE_CHECKING:
    from collections.abc import Mapping

    from xlagraph.message import Message

MAX_LINES = 3
"""Lines of a loop's head that are read."""
MAX_WIDTH = 90
"""Characters of a line that is proposed; a longer one is not."""
_UNSIZED = frozenset({"zip", "map", "filter", "iter", "cycle", "chain", "count", "islice"})
"""Functions whose result has no length."""


def as_many_turns(lines: Mapping[int, str], number: int) -> Message:
    """What to write above a ``for`` loop, and in its place.

    ``n = xm.mesh_reduce("n", len(loader), min)`` gives every rank the least of all values. Empty
    where the loop's head cannot be read, or what it goes through may have no length.

    Args:
        lines: of the file, by number.
        number: where the loop begins.
    """
    text, loop = _loop(lines, number)
    if loop is None:
        return EMPTY
    over = loop.iter
    inner = _argument(over, "enumerate")
    counted = _argument(over, "range")
    if counted is not None:
        size, through = _as_written(text, counted), "range(n)"
    elif _has_length(inner or over):
        source = _as_written(text, inner or over)
        size, through = f"len({source})", f"itertools.islice({source}, n)"
        through = f"enumerate({through})" if inner else through
    else:
        return EMPTY
    above = f'n = xm.mesh_reduce("n", {size}, min)'
    head = f"for {_as_written(text, loop.target)} in {through}:"
    if max(len(above), len(head)) > MAX_WIDTH:
        return EMPTY
    return say(Code(above), "; ", Code(head))


def _loop(lines: Mapping[int, str], number: int) -> tuple[str, ast.For | None]:
    for end in range(number + 1, number + 1 + MAX_LINES):
        if end - 1 not in lines:
            return "", None
        text = textwrap.dedent("\n".join(lines[k] for k in range(number, end)))
        for body in ("", " pass"):
            try:
                (found,) = ast.parse(text + body).body
            except (SyntaxError, ValueError, RecursionError, MemoryError):
                continue
            return text, found if isinstance(found, ast.For) else None
    return "", None


def _as_written(text: str, node: ast.expr) -> str:
    """An expression in the program's own spelling, if that is on one line."""
    found = ast.get_source_segment(text, node) or ""
    return ast.unparse(node) if "\n" in found or not found else found


def _argument(node: ast.expr, function: str) -> ast.expr | None:
    """The one argument of a call of this function."""
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == function:
        return node.args[0] if len(node.args) == 1 and not node.keywords else None
    return None


def _has_length(node: ast.expr) -> bool:
    """Whether it may be asked for its length and gone through afterwards."""
    if isinstance(node, ast.Call):
        function = node.func
        name = function.attr if isinstance(function, ast.Attribute) else ""
        name = function.id if isinstance(function, ast.Name) else name
        return name not in _UNSIZED | {"range", "enumerate"}
    return isinstance(node, (ast.Name, ast.Attribute, ast.Subscript))
