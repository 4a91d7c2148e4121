"""What a program calls the module that it wraps in FSDP, and how one of its parts is written."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from xlagraph.facts.program.written import called_name, statement_at

if TYPE_CHECKING:
    from collections.abc import Mapping

WRAPPERS = ("FSDP", "FullyShardedDataParallel")
"""What names of the wrapping class end in."""


def wrapped_name(lines: Mapping[int, str], number: int) -> str:
    """What stands for the module in the FSDP call that begins on a line: ``bert``, ``self.net``.

    `lines` are those known of the file, by number. Empty where there is no such call, where it
    is not told which of several is meant, or where the module is the result of another call;
    ``bert.to(device)`` is still ``bert``.
    """
    _, statements = statement_at(lines, number)
    nodes = (node for statement in statements for node in ast.walk(statement))
    calls = [one for one in nodes if isinstance(one, ast.Call)]
    found = {_name_of(one.args[0]) for one in calls if one.args and _wraps(one)}
    return found.pop() if len(found) == 1 else ""


def _wraps(call: ast.Call) -> bool:
    return called_name(call).endswith(WRAPPERS)


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
