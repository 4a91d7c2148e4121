"""Arithmetic on a number that Python reads from the device, written so that it stays there."""

from __future__ import annotations

import ast
import copy

_TO_PYTHON = frozenset({"item", "cpu"})
"""Methods that are left out."""
_REDUCTIONS = frozenset({"sum", "max", "min", "mean", "amax", "amin", "count_nonzero", "argmax"})
_NUMBERS = frozenset({"math", "np", "numpy"})
_CASTS = {"int": "long", "float": "float", "round": "round"}
_BOUNDS = {"max": ("min", "maximum"), "min": ("max", "minimum")}
"""By Python's function: the bound of ``clamp`` that does the same, and torch's of two tensors."""


class Unknown(Exception):  # noqa: N818 - it is an answer
    """An expression of which it is not known how it is written with tensors."""


def reads_device(node: ast.AST) -> bool:
    """Whether a number is taken from a tensor: ``.item()``, ``int(mask.sum())``."""
    return any(isinstance(one, ast.Call) and _reads(one) for one in ast.walk(node))


def _reads(call: ast.Call) -> bool:
    if isinstance(call.func, ast.Attribute):
        return call.func.attr == "item"
    is_cast = isinstance(call.func, ast.Name) and call.func.id in _CASTS
    return is_cast and len(call.args) == 1 and _is_reduction(call.args[0])


def _is_reduction(node: ast.expr) -> bool:
    if not (isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute)):
        return False
    of = node.func.value
    return node.func.attr in _REDUCTIONS and not (isinstance(of, ast.Name) and of.id in _NUMBERS)


def as_tensor(node: ast.expr, tensors: set[str]) -> tuple[ast.expr, bool]:
    """The expression without what reads from the device, and whether it is a tensor then.

    Args:
        node: an expression of Python numbers.
        tensors: names of variables that are tensors by now.

    Raises:
        Unknown: something in it takes numbers only, as far as is known here.
    """
    match node:
        case ast.Name():
            return node, node.id in tensors
        case ast.BinOp():
            left, is_left = as_tensor(node.left, tensors)
            right, is_right = as_tensor(node.right, tensors)
            return ast.BinOp(left, node.op, right), is_left or is_right
        case ast.UnaryOp(op=ast.USub()):
            inner, is_tensor = as_tensor(node.operand, tensors)
            return ast.UnaryOp(node.op, inner), is_tensor
        case ast.Call():
            return _call(node, tensors)
    return _as_it_is(node, tensors)


def _as_it_is(node: ast.expr, tensors: set[str]) -> tuple[ast.expr, bool]:
    used = {one.id for one in ast.walk(node) if isinstance(one, ast.Name)}
    if used & tensors or reads_device(node):
        raise Unknown
    return node, False


def _call(call: ast.Call, tensors: set[str]) -> tuple[ast.expr, bool]:
    function, arguments = call.func, call.args
    if isinstance(function, ast.Attribute) and function.attr in _TO_PYTHON and not arguments:
        return _without_reads(function.value), True
    name = function.id if isinstance(function, ast.Name) and not call.keywords else ""
    if name in _CASTS and len(arguments) == 1:
        inner, is_tensor = as_tensor(arguments[0], tensors)
        if is_tensor or _is_reduction(inner):
            return _method(inner, _CASTS[name]), True
        return call, False
    if name in _BOUNDS and len(arguments) > 1:
        return _bounded(call, name, [as_tensor(one, tensors) for one in arguments])
    return _as_it_is(call, tensors)


def _without_reads(node: ast.expr) -> ast.expr:
    """``x.sum()`` of ``x.sum().cpu()``."""
    while (
        isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and node.func.attr in _TO_PYTHON
        and not node.args
    ):
        node = node.func.value
    return node


def _bounded(
    call: ast.Call, name: str, found: list[tuple[ast.expr, bool]]
) -> tuple[ast.expr, bool]:
    """``n.clamp(min=1)`` for ``max(1, n)``."""
    mine = [one for one, is_tensor in found if is_tensor]
    if not mine:
        return call, False
    bound, both = _BOUNDS[name]
    result = mine[0]
    for other in mine[1:]:
        function = ast.Attribute(ast.Name("torch"), both)
        result = ast.Call(function, [result, other], [])
    for other in (one for one, is_tensor in found if not is_tensor):
        result = _method(result, "clamp")
        result.keywords = [ast.keyword(bound, other)]
    return result, True


def _method(of: ast.expr, name: str) -> ast.Call:
    return ast.Call(ast.Attribute(copy.deepcopy(of), name), [], [])
