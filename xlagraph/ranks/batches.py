"""How a loop is written so that all ranks take as many turns as the one with the fewest."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from xlagraph.facts.program.written import called_name, statement_at
from xlagraph.message import EMPTY, Listing, say

if TYPE_CHECKING:
    from collections.abc import Mapping

    from xlagraph.message import Message

MAX_WIDTH = 90
"""Characters of a line that is proposed; a longer one is not."""
_XM = "import torch_xla.core.xla_model as xm"
_ITERTOOLS = "import itertools"
_FEWEST = "# n: the steps of the rank that has the fewest; the others skip the rest"
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
    text, statements = statement_at(lines, number, " pass")
    loop = statements[0] if len(statements) == 1 else None
    if not isinstance(loop, ast.For):
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
    needed = [_XM, *([_ITERTOOLS] if "itertools." in through else [])]
    imports = [one for one in needed if one not in map(str.strip, lines.values())]
    code = say(Listing((_FEWEST, above, head)))
    return say(code, "and import:", Listing(tuple(imports))) if imports else code


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
        return called_name(node) not in _UNSIZED | {"range", "enumerate"}
    return isinstance(node, (ast.Name, ast.Attribute, ast.Subscript))
