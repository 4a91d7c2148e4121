"""Statements of the program that set an option of a layer or a parameter, and run no operation.

What such an option changes is seen where the layer runs; the line to edit is the one that sets it.
So it is with padding to the longest of a batch, and with joining items of any length to one,
which are seen where the batch is used, and with hooks, which are seen where they run.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Sequence
from typing import NamedTuple

ATTRIBUTES = frozenset({"momentum", "training", "requires_grad"})
"""What is set by assignment or by ``setattr``."""
METHODS = {
    "train": ("training", "True"),
    "eval": ("training", "False"),
    "requires_grad_": ("requires_grad", "True"),
}
"""Method to the attribute that it sets, and to what without an argument."""
_ARGUMENTS = frozenset({"mode", "requires_grad"})
PADDING = "padding"
"""What the option of calls is named that pad to the longest of a batch."""
JOINED = "joined"
"""The same of calls in collate functions that join the items of a batch; its value is the axis."""
UNTYPED = "untyped"
"""The same of calls that take a dtype from the values they are given; its value is the name that
the tensor gets."""
_MAKES = re.compile(r"(?:torch\.(?:as_)?tensor|(?:np|numpy)\.(?:as)?array)")
CUT = "cut"
"""The same of draws of a length, in Python, to which something is cut in the same function."""
_DRAWS = frozenset({"choice", "integers", "next", "randint", "randrange"})
HOOK = "hook"
"""The same of calls that attach a hook; its value is the name of the function that will run."""
COLLECTS = "collects"
"""The same of those whose hook appends to a list."""
_ATTACHES = re.compile(r"register_\w*hook")
LAMBDA = "<lambda>"
_JOINS = frozenset({"cat", "concat", "concatenate"})
_AXES = frozenset({"dim", "axis"})
_PADS = re.compile(r"pad_sequence|DataCollator\w*")
_LONGEST = ("True", "'longest'")
_LENGTHS = frozenset({"padding", "max_length", "pad_to_multiple_of"})
_COLLATES = re.compile(r"collate|\bpad_")
_TAKES_ONE = frozenset({"train", "requires_grad_"})
_SETS = re.compile(
    rf"\.(?:{'|'.join(sorted(ATTRIBUTES))})\b|[\"'](?:{'|'.join(sorted(ATTRIBUTES))})[\"']"
    rf"|\.(?:{'|'.join(sorted(METHODS))})\("
    rf"|{_PADS.pattern}|\b{PADDING}\s*=|{_COLLATES.pattern}|\.{_ATTACHES.pattern}\("
    rf"|\b(?:{'|'.join(sorted(_DRAWS))})\(|\b{_MAKES.pattern}\("
)
_MAX_TEXT = 1 << 19
_ESCAPE = re.compile(r"\\N\{[^}\n]*\}|\\.")
"""In a string; outside of one a backslash stands at the end of a line."""
_UNREADABLE = (SyntaxError, ValueError, RecursionError, MemoryError)


class Setting(NamedTuple):
    """One such statement."""

    line: int
    function: str
    """As frames call it."""
    option: str
    value: str
    """The text of a constant; empty where it is computed."""


def settings_in(lines: Sequence[str]) -> list[Setting]:
    """The statements of a file that set an option of something that was made before, by line.

    Left out is what an object sets of its own, and what belongs to an object just made.
    Empty where the text is no Python.
    """
    text = "\n".join(lines)
    if len(text) > _MAX_TEXT or not _SETS.search(text):
        return []
    try:
        tree = ast.parse(_ESCAPE.sub(_blank, text))  # without escapes, of which it would warn
    except _UNREADABLE:
        return []
    return sorted(_settings(tree))


def _blank(found: re.Match[str]) -> str:
    return "_" * len(found[0])


def _settings(tree: ast.Module) -> Iterator[Setting]:
    yield from _untyped(tree)
    collates = _given_collates(tree)
    waiting: list[tuple[ast.AST, str]] = [(tree, "<module>")]
    while waiting:
        node, function = waiting.pop()
        if isinstance(node, ast.Call):
            yield from _called(node, function)
            yield from _attached(node, function, tree)
            if _pads(node, function):
                yield Setting(node.lineno, function, PADDING, "")
            if _COLLATES.search(function) or function in collates:
                yield from _joined(node, function)
        elif isinstance(node, (ast.Assign, ast.AugAssign, ast.AnnAssign)):
            yield from _assigned(node, function)
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            function = node.name
            yield from _cut(node)
        waiting += [(inner, function) for inner in ast.iter_child_nodes(node)]


def _assigned(node: ast.Assign | ast.AugAssign | ast.AnnAssign, function: str) -> Iterator[Setting]:
    if node.value is None:  # an annotation alone
        return
    value = "" if isinstance(node, ast.AugAssign) else _constant(node.value)
    for target in node.targets if isinstance(node, ast.Assign) else [node.target]:
        if not isinstance(target, ast.Attribute) or _is_self(target.value):
            continue
        if target.attr in ATTRIBUTES:
            yield Setting(node.lineno, function, target.attr, value)


def _called(node: ast.Call, function: str) -> Iterator[Setting]:
    called = node.func
    if isinstance(called, ast.Name) and called.id == "setattr" and len(node.args) == 3:
        owner, name, given = node.args
        if isinstance(name, ast.Constant) and name.value in ATTRIBUTES and not _is_self(owner):
            yield Setting(node.lineno, function, str(name.value), _constant(given))
    elif isinstance(called, ast.Attribute) and called.attr in METHODS and _is_there(called.value):
        arguments = [*node.args, *(one.value for one in node.keywords)]
        is_known = all(one.arg in _ARGUMENTS for one in node.keywords)
        if is_known and len(arguments) <= (called.attr in _TAKES_ONE):
            option, value = METHODS[called.attr]
            yield Setting(
                called.end_lineno or node.lineno,
                function,
                option,
                _constant(arguments[0]) if arguments else value,
            )


def _pads(node: ast.Call, function: str) -> bool:
    """Whether a call pads to the longest of a batch, or a collate function asks how long that is.

    One that is told another length does not.
    """
    name = getattr(node.func, "attr", getattr(node.func, "id", ""))
    given = {one.arg: _constant(one.value) for one in node.keywords if one.arg}
    if name == "max":
        asks = any(isinstance(one, ast.Name) and one.id == "len" for one in ast.walk(node))
        return asks and bool(_COLLATES.search(function))
    if PADDING in given:
        return given[PADDING] in _LONGEST and "pad_to_multiple_of" not in given
    return bool(_PADS.fullmatch(name)) and _LENGTHS.isdisjoint(given)


def _untyped(tree: ast.Module) -> Iterator[Setting]:
    """The calls in functions that take a dtype from values of which it is not known here."""
    typed = {one.value for one in ast.walk(tree) if isinstance(one, ast.Attribute)}  # .float()
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
        if isinstance(one, ast.Call) and one not in typed and _takes_dtype(one)
    }
    for call, function in calls.items():
        yield Setting(call.lineno, function, UNTYPED, named.get(call, ""))


def _takes_dtype(call: ast.Call) -> bool:
    if len(call.args) != 1 or any(one.arg == "dtype" for one in call.keywords):
        return False
    given = call.args[0]
    element = given.elt if isinstance(given, (ast.ListComp, ast.GeneratorExp)) else given
    return bool(_MAKES.fullmatch(ast.unparse(call.func))) and not _is_of_one_type(element)


def _is_of_one_type(element: ast.expr) -> bool:
    """Whether the text of an element, or of one in a row of them, tells its type."""
    if isinstance(element, (ast.List, ast.Tuple)):
        return all(map(_is_of_one_type, element.elts)) or any(map(_is_float, element.elts))
    is_cast = isinstance(element, ast.Call) and getattr(element.func, "id", "") in ("int", "len")
    return is_cast or isinstance(element, ast.Constant) or _is_float(element)


def _is_float(element: ast.expr) -> bool:
    if isinstance(element, ast.BinOp):
        is_quotient = isinstance(element.op, ast.Div)
        return is_quotient or _is_float(element.left) or _is_float(element.right)
    if isinstance(element, ast.Call):
        return getattr(element.func, "id", "") == "float"
    return isinstance(element, ast.Constant) and isinstance(element.value, float)


def _cut(function: ast.FunctionDef | ast.AsyncFunctionDef) -> Iterator[Setting]:
    """The draws of numbers that the length of a slice depends on, as ``n`` of ``x[:, i : i + n]``.

    A number that both bounds have moves the slice, and leaves its length.
    """
    lengths = {
        name
        for one in ast.walk(function)
        if isinstance(one, ast.Slice) and one.upper
        for name in _names(one.upper) ^ (_names(one.lower) if one.lower else frozenset())
    }
    for one in ast.walk(function):
        if not isinstance(one, ast.Assign) or not isinstance(one.targets[0], ast.Name):
            continue
        if one.targets[0].id in lengths and _is_drawn(one.value):
            yield Setting(one.lineno, function.name, CUT, "")


def _is_drawn(value: ast.expr) -> bool:
    """Whether Python draws one number there, or takes the next of a stream; torch has a size."""
    if isinstance(value, ast.Call) and getattr(value.func, "id", "") == "int" and value.args:
        value = value.args[0]
    if not isinstance(value, ast.Call):
        return False
    name = getattr(value.func, "attr", getattr(value.func, "id", ""))
    is_many = len(value.args) > 2 or any(one.arg == "size" for one in value.keywords)
    return name in _DRAWS and not is_many


def _names(node: ast.expr) -> frozenset[str]:
    return frozenset(one.id for one in ast.walk(node) if isinstance(one, ast.Name))


def _given_collates(tree: ast.Module) -> frozenset[str]:
    """The names of functions that are given as ``collate_fn``."""
    return frozenset(
        _function(one.value, tree)
        for one in ast.walk(tree)
        if isinstance(one, ast.keyword) and one.arg == "collate_fn"
    )


def _joined(node: ast.Call, function: str) -> Iterator[Setting]:
    """A call that joins a list of as many tensors as a batch has; not one of those it names."""
    name = getattr(node.func, "attr", getattr(node.func, "id", ""))
    if name not in _JOINS or not node.args or isinstance(node.args[0], (ast.List, ast.Tuple)):
        return
    axes = [*node.args[1:], *(one.value for one in node.keywords if one.arg in _AXES)]
    axis = ast.unparse(axes[0]) if axes else "0"
    if re.fullmatch(r"-?\d+", axis):
        yield Setting(node.lineno, function, JOINED, axis)


def _attached(node: ast.Call, function: str, tree: ast.Module) -> Iterator[Setting]:
    """A call that attaches a hook, where the file tells which function that is."""
    if _ATTACHES.fullmatch(getattr(node.func, "attr", "")) and node.args:
        hook = _function(node.args[0], tree)
        if hook:
            yield Setting(node.lineno, function, HOOK, hook)
        if any(_appends(one) for one in _defined(hook, tree)):
            yield Setting(node.lineno, function, COLLECTS, hook)


def _defined(name: str, tree: ast.Module) -> list[ast.FunctionDef]:
    return [one for one in ast.walk(tree) if isinstance(one, ast.FunctionDef) and one.name == name]


def _appends(function: ast.FunctionDef) -> bool:
    calls = (one.func for one in ast.walk(function) if isinstance(one, ast.Call))
    return any(getattr(one, "attr", "") in ("append", "extend") for one in calls)


def _function(given: ast.expr, tree: ast.Module) -> str:
    """What frames call a function that is given: by its name, as a partial one, or made by one."""
    if isinstance(given, ast.Lambda):
        return LAMBDA
    if not isinstance(given, ast.Call):
        return str(getattr(given, "attr", getattr(given, "id", "")))
    maker = getattr(given.func, "attr", getattr(given.func, "id", ""))
    if maker == "partial" and given.args:
        return _function(given.args[0], tree)
    made = {
        one.name if isinstance(one, ast.FunctionDef) else LAMBDA
        for outer in _defined(maker, tree)
        for one in ast.walk(outer)
        if isinstance(one, (ast.FunctionDef, ast.Lambda)) and one is not outer
    }
    return made.pop() if len(made) == 1 else ""


def _is_self(owner: ast.expr) -> bool:
    """Whether an object's own attribute is set, of which it is not known what it is."""
    return isinstance(owner, ast.Name) and owner.id == "self"


def _is_there(owner: ast.expr) -> bool:
    """Whether something is named, by variables, attributes and items, and not just made."""
    while isinstance(owner, (ast.Attribute, ast.Subscript)):
        owner = owner.value
    return isinstance(owner, ast.Name)


def _constant(value: ast.expr | None) -> str:
    return repr(value.value) if isinstance(value, ast.Constant) else ""
