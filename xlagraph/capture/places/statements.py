"""What a statement of the program sets, and what its text calls functions and constants."""

from __future__ import annotations

import ast
from typing import NamedTuple

LAMBDA = "<lambda>"


class Setting(NamedTuple):
    """One such statement."""

    line: int
    function: str
    """As frames call it."""
    option: str
    value: str
    """The text of a constant; empty where it is computed."""


def defined(name: str, tree: ast.Module) -> list[ast.FunctionDef]:
    """The functions of a file that have this name."""
    return [one for one in ast.walk(tree) if isinstance(one, ast.FunctionDef) and one.name == name]


def function_name(given: ast.expr, tree: ast.Module) -> str:
    """What frames call a function that is given: by its name, as a partial one, or made by one."""
    if isinstance(given, ast.Lambda):
        return LAMBDA
    if not isinstance(given, ast.Call):
        return str(getattr(given, "attr", getattr(given, "id", "")))
    maker = getattr(given.func, "attr", getattr(given.func, "id", ""))
    if maker == "partial" and given.args:
        return function_name(given.args[0], tree)
    made = {
        one.name if isinstance(one, ast.FunctionDef) else LAMBDA
        for outer in defined(maker, tree)
        for one in ast.walk(outer)
        if isinstance(one, (ast.FunctionDef, ast.Lambda)) and one is not outer
    }
    return made.pop() if len(made) == 1 else ""


def constant_text(value: ast.expr | None) -> str:
    """A constant as Python writes it; empty of what is computed."""
    return repr(value.value) if isinstance(value, ast.Constant) else ""
