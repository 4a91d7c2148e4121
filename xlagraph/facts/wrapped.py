"""What a program calls the module that it wraps in FSDP, and how one of its parts is written."""

from __future__ import annotations

import ast
import textwrap
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

WRAPPERS = ("FSDP", "FullyShardedDataParallel")
"""What names of the wrapping class end in."""
MAX_LINES = 3
"""Lines of one call that are read."""


def wrapped_name(lines: Mapping[int, str], number: int) -> str:
    """What stands for the module in the FSDP call that begins on a line: ``bert``, ``self.net``.

    `lines` are those known of the file, by number. Empty where there is no such call, where it
    is not told which of several is meant, or where the module is the result of another call;
    ``bert.to(device)`` is still ``bert``.
    """
    for end in range(number + 1, number + 1 + MAX_LINES):
        if end - 1 not in lines:
            return ""
        text = textwrap.dedent("\n".join(lines[k] for k in range(number, end)))
        try:
            tree = ast.parse(text)
        except (SyntaxError, ValueError, RecursionError, MemoryError):
            continue  # the call goes on
        calls = [one for one in ast.walk(tree) if isinstance(one, ast.Call) and _wraps(one)]
        found = {_name_of(one.args[0]) for one in calls if one.args}
        return found.pop() if len(found) == 1 else ""
    return ""


def _wraps(call: ast.Call) -> bool:
    name = call.func.attr if isinstance(call.func, ast.Attribute) else ""
    name = call.func.id if isinstance(call.func, ast.Name) else name
    return name.endswith(WRAPPERS)


def _name_of(node: ast.expr) -> str:
    """A name with its attributes, without the methods called on it that give it back."""
    while isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
        node = node.func.value
    inner = node
    while isinstance(inner, ast.Attribute):
        inner = inner.value
    return ast.unparse(node) if isinstance(inner, ast.Name) else ""


def attribute_path(name: str, path: str) -> str:
    """``bert.encoder.layer[1].output``: a module within another, as Python is written.

    A part that is a number is an item of a list of modules.
    """
    parts = [part for part in path.split(".") if part]
    if not all(part.isidentifier() or part.isdecimal() for part in parts):
        return f"{name}.get_submodule({path!r})"
    return name + "".join(f"[{part}]" if part.isdecimal() else f".{part}" for part in parts)
