"""A number of the program, and the dtype of an input, written so that no graph depends on it."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING, NamedTuple

from xlagraph.facts.program.written import MAX_WIDTH, Statement, called_name, statements_over

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence


class TypedStatement(NamedTuple):
    """What to write in the place of a statement."""

    first: int
    """The lines to replace."""
    last: int
    code: tuple[str, ...]


def typed_exponent(lines: Mapping[int, str], number: int) -> TypedStatement | None:
    """The statement on this line with the one exponent that is no constant sent as a tensor.

    In one of one element: a tensor without dimensions is lowered as its number (0 and 1 are
    constants). None where there is none, or several.
    """
    for statement in statements_over(lines, number):
        found = [one for one in map(_exponent, ast.walk(statement.node)) if one is not None]
        if found:
            (exponent, *more) = found
            if more or any(isinstance(one, ast.Starred) for one in ast.walk(exponent)):
                return None
            sent = f'torch.tensor([{statement.segment(exponent)}]).to("xla")[0]'
            return replaced(statement, [(exponent, sent)])
    return None


def _exponent(node: ast.AST) -> ast.expr | None:
    """Of ``x ** p``, ``x.pow(p)`` and ``torch.pow(x, p)``; None for a constant."""
    found = None
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Pow):
        found = node.right
    elif isinstance(node, ast.Call) and called_name(node) == "pow" and not node.keywords:
        is_torch = ast.unparse(node.func) == "torch.pow"
        given = node.args[1:] if is_torch else node.args
        found = given[0] if len(given) == 1 and isinstance(node.func, ast.Attribute) else None
    is_fixed = found is None or not any(isinstance(one, ast.Name) for one in ast.walk(found))
    return None if is_fixed else found


def typed_cast(lines: Mapping[int, str], number: int, dtype: str) -> TypedStatement | None:
    """The statement on this line with what its one ``.to(device)`` sends converted before.

    None where it sends several tensors, or none that is seen.

    Args:
        lines: those known of the file, by number.
        number: where the input is sent.
        dtype: ``torch.float32``.
    """
    for statement in statements_over(lines, number):
        calls = [one for one in ast.walk(statement.node) if isinstance(one, ast.Call)]
        sending = [one for one in calls if isinstance(one.func, ast.Attribute) and _sends(one)]
        if not sending:
            continue
        loops = (ast.ListComp, ast.GeneratorExp, ast.DictComp, ast.SetComp, ast.Lambda)
        if len(sending) > 1 or any(isinstance(one, loops) for one in ast.walk(statement.node)):
            return None
        function = sending[0].func
        if isinstance(function, ast.Attribute):
            text = f"{statement.segment(function.value)}.to({dtype})"
            return replaced(statement, [(function.value, text)])
    return None


def _sends(call: ast.Call) -> bool:
    is_alone = len(call.args) == 1 and not call.keywords
    is_dtype = is_alone and ast.unparse(call.args[0]).startswith("torch.")
    return called_name(call) == "to" and is_alone and not is_dtype


def replaced(statement: Statement, edits: Sequence[tuple[ast.expr, str]]) -> TypedStatement | None:
    """The statement with these texts in the place of its expressions; None if it gets too wide."""
    code = statement.replaced(edits)
    if max(map(len, code)) > MAX_WIDTH:
        return None
    return TypedStatement(statement.first, statement.last, code)
