"""Statements that say how a batch is put together on the host, and so how long it is.

What they make is seen where the batch is sent; the line to edit is the one that makes it.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from xlagraph.capture.places.statements import Setting, constant_text, function_name

PADDING = "padding"
"""What the option of calls is named that pad to the longest of a batch."""
JOINED = "joined"
"""The same of calls in collate functions that join the items of a batch; its value is the axis."""
DISTINCT = "distinct"
"""The same of calls there that leave as many items as there are different ones in a batch."""
CUT = "cut"
"""The same of draws of a length, in Python, to which something is cut in the same function."""
DRAWS = frozenset({"choice", "integers", "next", "randint", "randrange"})
_LEAVES = frozenset(
    {"unique", "setdiff1d", "union1d", "intersect1d", "nonzero", "flatnonzero", "argwhere"}
)
_JOINS = frozenset({"cat", "concat", "concatenate"})
_AXES = frozenset({"dim", "axis"})
PADS = re.compile(r"pad_sequence|DataCollator\w*")
_LONGEST = ("True", "'longest'")
_LENGTHS = frozenset({"padding", "max_length", "pad_to_multiple_of"})
COLLATES = re.compile(r"collate|\bpad_")


def pads(node: ast.Call, function: str) -> bool:
    """Whether a call pads to the longest of a batch, or a collate function asks how long that is.

    One that is told another length does not.
    """
    name = getattr(node.func, "attr", getattr(node.func, "id", ""))
    given = {one.arg: constant_text(one.value) for one in node.keywords if one.arg}
    if name == "max":
        asks = any(isinstance(one, ast.Name) and one.id == "len" for one in ast.walk(node))
        return asks and bool(COLLATES.search(function))
    if PADDING in given:
        return given[PADDING] in _LONGEST and "pad_to_multiple_of" not in given
    return bool(PADS.fullmatch(name)) and _LENGTHS.isdisjoint(given)


def cut(function: ast.FunctionDef | ast.AsyncFunctionDef) -> Iterator[Setting]:
    """The draws of numbers that the length of a slice depends on, as ``n`` of ``x[:, i : i + n]``.

    A number that both bounds have moves the slice, and leaves its length.
    """
    lengths = {
        name
        for one in ast.walk(function)
        if isinstance(one, ast.Slice) and one.upper
        for name in _names(one.upper) ^ (_names(one.lower) if one.lower else frozenset())
    }
    inner = {
        one
        for nested in ast.walk(function)
        if isinstance(nested, ast.FunctionDef) and nested is not function
        for one in ast.walk(nested)
    }
    for one in set(ast.walk(function)) - inner:
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
    return name in DRAWS and not is_many


def _names(node: ast.expr) -> frozenset[str]:
    return frozenset(one.id for one in ast.walk(node) if isinstance(one, ast.Name))


def given_collates(tree: ast.Module) -> frozenset[str]:
    """The names of functions that are given as ``collate_fn``; of objects what calls them."""
    given = [
        one.value
        for one in ast.walk(tree)
        if isinstance(one, ast.keyword) and one.arg == "collate_fn"
    ]
    classes = {one.name for one in ast.walk(tree) if isinstance(one, ast.ClassDef)}
    return frozenset(
        "__call__" if _maker(one) in classes else function_name(one, tree) for one in given
    )


def _maker(given: ast.expr) -> str:
    """The name of what is called to make a value."""
    return getattr(given.func, "id", "") if isinstance(given, ast.Call) else ""


def distinct(node: ast.Call, function: str) -> Iterator[Setting]:
    """A call of which the result is as long as there are different items, or others than 0."""
    if getattr(node.func, "attr", "") in _LEAVES:
        yield Setting(node.lineno, function, DISTINCT, "")


def joined(node: ast.Call, function: str) -> Iterator[Setting]:
    """A call that joins a list of as many tensors as a batch has; not one of those it names."""
    name = getattr(node.func, "attr", getattr(node.func, "id", ""))
    if name not in _JOINS or not node.args or isinstance(node.args[0], (ast.List, ast.Tuple)):
        return
    axes = [*node.args[1:], *(one.value for one in node.keywords if one.arg in _AXES)]
    axis = ast.unparse(axes[0]) if axes else "0"
    if re.fullmatch(r"-?\d+", axis):
        yield Setting(node.lineno, function, JOINED, axis)
