"""Whether a statement of the program runs again as it trains, or once, as what it trains is made.

Functions go by their names, over all files of the program; where the text does not tell who calls
one, it may run again.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator
from functools import cached_property

_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
_COMPREHENSIONS = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)
_LOOPS = (ast.For, ast.AsyncFor, ast.While)
_SCOPES = (*_FUNCTIONS, ast.ClassDef, ast.Lambda)
_IMPLIED = re.compile(r"__\w+__")
"""Methods that Python calls; ``__init__`` runs where the class is called."""
_NEW = re.compile(r"[A-Z]")
"""What the name of a class begins with; ``clip_grad_norm_`` gets parameters in each step."""
_PARAMETERS = frozenset({"parameters", "named_parameters"})


class Text:
    """One file of the program, with what stands around each node."""

    def __init__(self, tree: ast.Module) -> None:
        self.tree = tree

    @cached_property
    def around(self) -> dict[ast.AST, ast.AST]:
        """What each node stands in."""
        return {
            inner: outer for outer in ast.walk(self.tree) for inner in ast.iter_child_nodes(outer)
        }

    def uses(self, name: str) -> Iterator[ast.AST]:
        """Where a function is called, or named as a value; not where it is imported."""
        for one in ast.walk(self.tree):
            if name == _name(one):
                yield one

    def at(self, line: int) -> ast.AST | None:
        """The innermost statement at a line; None if there is none."""
        found = [
            one
            for one in ast.walk(self.tree)
            if isinstance(one, ast.stmt) and one.lineno <= line <= (one.end_lineno or line)
        ]
        return max(found, key=lambda one: (one.lineno, -(one.end_lineno or 0)), default=None)


def runs_again(start: ast.AST, of: Text, program: Iterable[Text]) -> bool:
    """Whether something runs in turns of a loop, in which no training is set up anew.

    The loop stands around it, or around a call that leads there. True as well where it is not
    known from where its function is called: by Python, a library, or as a value.

    Args:
        start: the statement, or the expression.
        of: the file that it stands in.
        program: all files, that one too.
    """
    program, seen = list(program), set[str]()
    waiting = [(start, of)]
    while waiting:
        node, text = waiting.pop()
        found = _scope(node, text)
        if isinstance(found, bool):
            if found:
                return True
            continue
        if found in seen:
            continue
        seen.add(found)
        uses = [(one, other) for other in program for one in other.uses(found)]
        if not uses or not all(_is_called(one, other) for one, other in uses):
            return True
        waiting += uses
    return False


def _scope(node: ast.AST, text: Text) -> bool | str:
    """Whether a node runs again; else the name by which its function is called."""
    while node in text.around:
        inner, node = node, text.around[node]
        if isinstance(node, ast.comprehension) and inner is node.iter:  # it is made once
            node = text.around[node]
        elif _is_turned(inner, node):
            return not _sets_up(node)
        elif isinstance(node, ast.Lambda):
            return True
        elif isinstance(node, _FUNCTIONS) and inner in node.body:
            return _called_as(node, text)
    return False


def _called_as(function: ast.FunctionDef | ast.AsyncFunctionDef, text: Text) -> bool | str:
    if _sets_up(function):
        return False
    if any(isinstance(one, (ast.Yield, ast.YieldFrom)) for one in _own(function)):
        return True
    outer = text.around[function]
    if function.name == "__init__" and isinstance(outer, ast.ClassDef):
        return outer.name
    return bool(_IMPLIED.fullmatch(function.name)) or function.name


def _is_turned(inner: ast.AST, node: ast.AST) -> bool:
    """Whether a node runs what stands in it in turns, of which nobody has written down each."""
    if isinstance(node, _COMPREHENSIONS):
        return not all(isinstance(one.iter, (ast.Tuple, ast.List)) for one in node.generators)
    if isinstance(node, (ast.For, ast.AsyncFor)):
        return inner in node.body and not isinstance(node.iter, (ast.Tuple, ast.List))
    return isinstance(node, ast.While)


def _sets_up(node: ast.AST) -> bool:
    """Whether an optimizer is made there, in no loop within: an object that gets parameters."""
    return any(
        isinstance(one, ast.Call) and _NEW.match(_name(one.func)) and _gets_parameters(one)
        for one in _own(node)
    )


def _gets_parameters(call: ast.Call) -> bool:
    given = [*call.args, *(one.value for one in call.keywords)]
    return any(
        isinstance(one, ast.Call) and _name(one.func) in _PARAMETERS
        for argument in given
        for one in ast.walk(argument)
    )


def _name(node: ast.AST) -> str:
    return str(getattr(node, "attr", getattr(node, "id", "")))


def _own(node: ast.AST) -> Iterator[ast.AST]:
    """What stands in a node, but for what its inner loops and functions have."""
    waiting = list(ast.iter_child_nodes(node))
    while waiting:
        one = waiting.pop()
        yield one
        if not isinstance(one, (*_LOOPS, *_SCOPES)):
            waiting += ast.iter_child_nodes(one)


def _is_called(use: ast.AST, text: Text) -> bool:
    outer = text.around.get(use)
    return isinstance(outer, ast.Call) and outer.func is use
