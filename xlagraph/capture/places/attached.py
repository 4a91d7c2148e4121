"""Calls of the program that attach hooks: what these compute is seen where they run."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from xlagraph.capture.places.statements import Setting, defined, function_name

HOOK = "hook"
"""What calls are named that attach a hook; its value is the name of the function that will run."""
COLLECTS = "collects"
"""Those of them whose hook appends to a list."""
ATTACHES = re.compile(r"register_\w*hook")


def attached(node: ast.Call, function: str, tree: ast.Module) -> Iterator[Setting]:
    """A call that attaches a hook, where the file tells which function that is."""
    if ATTACHES.fullmatch(getattr(node.func, "attr", "")) and node.args:
        hook = function_name(node.args[0], tree)
        if hook:
            yield Setting(node.lineno, function, HOOK, hook)
        if any(_appends(one) for one in defined(hook, tree)):
            yield Setting(node.lineno, function, COLLECTS, hook)


def _appends(function: ast.FunctionDef) -> bool:
    calls = (one.func for one in ast.walk(function) if isinstance(one, ast.Call))
    return any(getattr(one, "attr", "") in ("append", "extend") for one in calls)
