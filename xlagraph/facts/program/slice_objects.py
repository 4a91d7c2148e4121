"""Names that stand for a slice: ``rows = slice(start, start + n)``, above ``x[rows]``."""

from __future__ import annotations

import ast
import re
from typing import TYPE_CHECKING

from xlagraph.facts.program.written import indentation, statement_at

if TYPE_CHECKING:
    from collections.abc import Mapping

_BOUNDS = 2
_HEAD = re.compile(r"\s*(?:async\s+def|def|class)\b")


def slice_object(value: ast.expr | None) -> ast.Slice | None:
    """The slice that an expression makes with both of its bounds; None if it makes none."""
    if not isinstance(value, ast.Call) or value.keywords or len(value.args) != _BOUNDS:
        return None
    is_slice = isinstance(value.func, ast.Name) and value.func.id == "slice"
    lower, upper = value.args
    is_bounded = all(
        not isinstance(one, ast.Starred) and getattr(one, "value", one) is not None
        for one in value.args
    )
    return ast.Slice(lower, upper) if is_slice and is_bounded else None


def value_above(lines: Mapping[int, str], number: int, name: str) -> ast.expr | None:
    """What a name was given last before a line, in the same function and on every way there.

    None where that is not seen: a parameter, the variable of a loop, a branch.
    """
    level = indentation(lines.get(number, ""))
    for k in range(number - 1, 0, -1):
        if k not in lines:
            return None
        text = lines[k]
        if not text.strip() or text.lstrip().startswith("#"):
            continue
        within = indentation(text)
        if within < level and _HEAD.match(text):
            return None
        nodes = statement_at(lines, k, " pass")[1]
        if any(_is_bound(node, name) for node in nodes):
            return _assigned(nodes, name) if within <= level else None
        level = min(level, within)
    return None


def _is_bound(node: ast.stmt, name: str) -> bool:
    return any(
        isinstance(one, ast.Name) and one.id == name and isinstance(one.ctx, (ast.Store, ast.Del))
        for one in ast.walk(node)
    )


def _assigned(nodes: list[ast.stmt], name: str) -> ast.expr | None:
    """The value of ``name = value``, alone on its line."""
    node = nodes[0] if len(nodes) == 1 else None
    if isinstance(node, ast.AnnAssign):
        return node.value if isinstance(node.target, ast.Name) else None
    if not isinstance(node, ast.Assign) or len(node.targets) != 1:
        return None
    (target,) = node.targets
    return node.value if isinstance(target, ast.Name) and target.id == name else None
