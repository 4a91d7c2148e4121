"""Calls that make a tensor, or an array for one, and take its dtype from the values they are given.

What they make is seen where it is sent; the line to edit is the one that makes it.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from xlagraph.capture.places.statements import Setting

UNTYPED = "untyped"
"""What the option of such calls is named; its value is the name that the tensor gets."""
MAKES = re.compile(r"(?:torch\.(?:as_)?tensor|(?:np|numpy)\.(?:as)?array)")
TABLES = "to_numpy|from_numpy"
"""Calls that hand over the column of a table: pandas infers its dtype from the cells."""
_HANDS_ON = re.compile(rf"{MAKES.pattern}|torch\.from_numpy")
_KEEPS = frozenset({"copy", "flatten", "ravel", "reshape", "squeeze", "values"})
"""What leaves the dtype; all else that is done at once may give another one."""
_CASTS = frozenset({"astype", "bool", "double", "float", "half", "int", "long"})


def untyped(tree: ast.Module) -> Iterator[Setting]:
    """The calls in functions that take a dtype from values of which it is not known here."""
    converted = _converted(tree)
    named = {
        one.value: one.targets[0].id
        for one in ast.walk(tree)
        if isinstance(one, ast.Assign) and isinstance(one.targets[0], ast.Name)
    }
    functions = [one for one in ast.walk(tree) if isinstance(one, ast.FunctionDef)]
    calls = {
        one: function.name
        for function in functions  # of nested ones the inner comes later
        for one in ast.walk(function)
        if isinstance(one, ast.Call) and one not in converted and _takes_dtype(one)
    }
    found = (
        Setting(call.lineno, function, UNTYPED, named.get(call, ""))
        for call, function in calls.items()
    )
    yield from dict.fromkeys(found)


def _converted(tree: ast.Module) -> set[ast.AST]:
    """What is given another type at once: by a method, or by a call that states one."""
    outer: list[ast.expr] = []
    for one in ast.walk(tree):
        if isinstance(one, ast.Attribute) and one.attr not in _KEEPS | {"to_numpy"}:
            outer.append(one.value)  # .float()
        elif isinstance(one, ast.Call) and _states_dtype(one):
            outer += one.args
    return {inner for one in outer for inner in _handed_on(one)}


def _handed_on(value: ast.expr) -> Iterator[ast.AST]:
    """A value, and what comes into it as it is."""
    yield value
    if isinstance(value, ast.Attribute):
        yield from _handed_on(value.value)
    if not isinstance(value, ast.Call):
        return
    if isinstance(value.func, ast.Attribute) and value.func.attr in _KEEPS:
        yield from _handed_on(value.func.value)
    elif value.args and _HANDS_ON.fullmatch(ast.unparse(value.func)):
        yield from ast.walk(value.args[0])


def _states_dtype(call: ast.Call) -> bool:
    return any(one.arg == "dtype" for one in call.keywords)


def _takes_dtype(call: ast.Call) -> bool:
    if _states_dtype(call):
        return False
    name = getattr(call.func, "attr", "")
    if name == "to_numpy":
        return not call.args and not _is_cast(call.func)
    if len(call.args) != 1:
        return False
    given = call.args[0]
    if name == "from_numpy":
        return _is_of_table(given) and not _is_cast(given)
    element = given.elt if isinstance(given, (ast.ListComp, ast.GeneratorExp)) else given
    return bool(MAKES.fullmatch(ast.unparse(call.func))) and not _is_of_one_type(element)


def _is_of_table(given: ast.expr) -> bool:
    """Whether an array is what a table has as its values."""
    while isinstance(given, ast.Call) and isinstance(given.func, ast.Attribute):
        given = given.func.value
    return isinstance(given, ast.Attribute) and given.attr == "values"


def _is_cast(value: ast.expr) -> bool:
    """Whether a type is stated anywhere in what a value is made of."""
    calls = [one for one in ast.walk(value) if isinstance(one, ast.Call)]
    return any(getattr(one.func, "attr", "") in _CASTS or _states_dtype(one) for one in calls)


def _is_of_one_type(element: ast.expr) -> bool:
    """Whether the text of an element, or of one in a row of them, tells its type."""
    if isinstance(element, (ast.List, ast.Tuple)):
        return all(map(_is_of_one_type, element.elts)) or any(map(_is_float, element.elts))
    if isinstance(element, ast.Call) and isinstance(element.func, ast.Attribute):
        return _is_cast(element)
    is_whole = isinstance(element, ast.Call) and getattr(element.func, "id", "") in ("int", "len")
    return is_whole or isinstance(element, ast.Constant) or _is_float(element)


def _is_float(element: ast.expr) -> bool:
    if isinstance(element, ast.BinOp):
        is_quotient = isinstance(element.op, ast.Div)
        return is_quotient or _is_float(element.left) or _is_float(element.right)
    if isinstance(element, ast.Call):
        return getattr(element.func, "id", "") == "float"
    return isinstance(element, ast.Constant) and isinstance(element.value, float)
