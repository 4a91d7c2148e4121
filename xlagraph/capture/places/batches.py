"""Statements that say how a batch is put together on the host, and so how long it is.

What they make is seen where the batch is sent; the line to edit is the one that makes it.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator

from xlagraph.capture.places.statements import Setting, constant_text, function_name
from xlagraph.capture.places.untyped import MAKES

PADDING = "padding"
"""What the option of calls is named that pad to the longest of a batch."""
JOINED = "joined"
"""The same of calls in collate functions that join the items of a batch; its value is the axis."""
DISTINCT = "distinct"
"""The same of calls there that leave as many items as there are different ones in a batch."""
CUT = "cut"
"""The same of draws of a length, in Python, to which something is cut in the same function."""
DRAWS = frozenset({"choice", "integers", "next", "randint", "randrange"})
LEAVES = frozenset(
    {"unique", "setdiff1d", "union1d", "intersect1d", "nonzero", "flatnonzero", "argwhere"}
)
_JOINS = frozenset({"cat", "concat", "concatenate"})
_AXES = frozenset({"dim", "axis"})
FLATTENS = "DataCollatorWithFlattening"
"""What transformers calls its collator that joins the items of a batch along the last axis."""
PADS = re.compile(rf"pad_sequence|(?!{FLATTENS}\b)DataCollator\w*")
_LONGEST = ("True", "'longest'")
_SIZES = frozenset({"shape", "size"})
_LENGTHS = frozenset({"padding", "max_length", "pad_to_multiple_of"})
COLLATES = re.compile(r"collate|\bpad_")


def pads(node: ast.Call, *, collates: bool) -> bool:
    """Whether a call pads to the longest of a batch, or a collate function asks how long that is.

    One that is told another length does not.

    Args:
        node: the call.
        collates: it stands in a function that puts batches together.
    """
    name = _called(node)
    given = {one.arg: constant_text(one.value) for one in node.keywords if one.arg}
    if name == "max":
        return collates and _asks_lengths(node)
    if PADDING in given:
        return given[PADDING] in _LONGEST and "pad_to_multiple_of" not in given
    return bool(PADS.fullmatch(name)) and _LENGTHS.isdisjoint(given)


def flattened(node: ast.Call, function: str) -> Iterator[Setting]:
    """A call that makes a collator of transformers which joins the items of a batch."""
    if _called(node) == FLATTENS:
        yield Setting(node.lineno, function, JOINED, "-1")


def makes(node: ast.Call) -> bool:
    """Whether a call makes an object of a class, which pads each batch that it is given."""
    return _called(node)[:1].isupper()


def _asks_lengths(node: ast.Call) -> bool:
    """Whether the largest is taken of how long things are: by ``len`` or by their shapes."""
    parts = list(ast.walk(node))
    is_each = any(isinstance(one, (ast.GeneratorExp, ast.ListComp)) for one in parts)
    sizes = any(isinstance(one, ast.Attribute) and one.attr in _SIZES for one in parts)
    return (is_each and sizes) or any(
        isinstance(one, ast.Name) and one.id == "len" for one in parts
    )


def cut(function: ast.FunctionDef | ast.AsyncFunctionDef) -> Iterator[Setting]:
    """The draws of numbers that the length of a slice depends on, as ``n`` of ``x[:, i : i + n]``.

    A number that both bounds have moves the slice, and leaves its length. What is written to a
    slice fills a part of something longer.
    """
    lengths = {
        name
        for subscript in ast.walk(function)
        if isinstance(subscript, ast.Subscript) and isinstance(subscript.ctx, ast.Load)
        for one in ast.walk(subscript.slice)
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
    name = _called(value)
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
    objects = {
        name
        for one in ast.walk(tree)
        if isinstance(one, ast.Assign) and _maker(one.value) in classes
        for name in _bound(one.targets)
    }
    return frozenset(
        "__call__"
        if _maker(one) in classes or getattr(one, "id", "") in objects
        else function_name(one, tree)
        for one in given
    )


def senders(tree: ast.Module) -> frozenset[str]:
    """The names of a file's functions whose results are sent to the device where they are called.

    ``x, y = (t.to(device) for t in make_batch())``, or by the names that the results get there.
    """
    own = {one.name for one in ast.walk(tree) if isinstance(one, ast.FunctionDef)}
    made: set[tuple[str, str]] = set()
    sent: set[str] = set()
    for one in ast.walk(tree):
        if isinstance(one, ast.Assign):
            made |= {(name, _called(one.value)) for name in _bound(one.targets)}
        elif isinstance(one, (ast.For, ast.comprehension)):
            made |= {(name, _called(one.iter)) for name in _bound([one.target])}
        elif isinstance(one, ast.Call) and getattr(one.func, "attr", "") == "to":
            of = one.func.value if isinstance(one.func, ast.Attribute) else one
            is_host = any("cpu" in constant_text(given) for given in one.args)
            sent |= set() if is_host else {_called(of), *_names(of)}
    return frozenset(own & (sent | {maker for name, maker in made if name in sent}))


def _bound(targets: Iterable[ast.expr]) -> frozenset[str]:
    return frozenset[str]().union(*map(_names, targets))


def _called(value: ast.expr) -> str:
    """The name of the function that gives a value; empty where none does."""
    called = value.func if isinstance(value, ast.Call) else None
    return getattr(called, "attr", getattr(called, "id", ""))


def _maker(given: ast.expr) -> str:
    """The name of what is called to make a value."""
    return getattr(given.func, "id", "") if isinstance(given, ast.Call) else ""


def distinct(node: ast.Call, function: str) -> Iterator[Setting]:
    """A call of which the result is as long as there are different items, or others than 0."""
    if getattr(node.func, "attr", "") in LEAVES:
        yield Setting(node.lineno, function, DISTINCT, "")


def joined(node: ast.Call, function: str) -> Iterator[Setting]:
    """A call that joins a list of as many tensors as a batch has; not one of those it names."""
    name = _called(node)
    if name not in _JOINS or not node.args or isinstance(node.args[0], (ast.List, ast.Tuple)):
        return
    axes = [*node.args[1:], *(one.value for one in node.keywords if one.arg in _AXES)]
    axis = ast.unparse(axes[0]) if axes else "0"
    if re.fullmatch(r"-?\d+", axis):
        yield Setting(node.lineno, function, JOINED, axis)


def joined_lists(function: ast.FunctionDef | ast.AsyncFunctionDef) -> Iterator[Setting]:
    """The tensors made of lists that become longer by what each item of a batch has.

    A list that is filled up behind the loop, or is one item's own, is none.
    """
    loops = [one for one in ast.walk(function) if isinstance(one, ast.For)]
    behind = set(ast.walk(function)) - {inner for loop in loops for inner in ast.walk(loop)}
    begun = {name for one in behind if isinstance(one, ast.Assign) for name in _lists(one)}
    grown = {name for loop in loops for name in _grown(loop)}
    joined_ = grown & begun - {name for one in behind for name, _ in _added(one)}
    for one in behind:
        if isinstance(one, ast.Call) and one.args and MAKES.fullmatch(ast.unparse(one.func)):
            given = one.args[0]
            is_flat = isinstance(given, ast.ListComp) and _goes_through_items(given)
            if is_flat or (isinstance(given, ast.Name) and given.id in joined_):
                yield Setting(one.lineno, function.name, JOINED, "0")


def _goes_through_items(made: ast.ListComp) -> bool:
    """Whether a list has what is in each of several items, one after the other."""
    first, *more = made.generators
    return any(_names(first.target) & _names(one.iter) for one in more)


def _lists(assigned: ast.Assign) -> Iterator[str]:
    """The names that get an empty list, each one of its own."""
    values = assigned.value.elts if isinstance(assigned.value, ast.Tuple) else [assigned.value]
    if all(isinstance(one, ast.List) and not one.elts for one in values):
        yield from (name for target in assigned.targets for name in _names(target))


def _grown(loop: ast.For) -> Iterator[str]:
    """The lists to which a loop adds as much as its item has: at once, or in a loop over that."""
    item = _names(loop.target)
    inner = [one for one in ast.walk(loop) if isinstance(one, ast.For) and item & _names(one.iter)]
    further = {nested for one in inner for nested in ast.walk(one)}
    for one in ast.walk(loop):
        for name, given in _added(one):
            is_row = given is None or isinstance(given, (ast.List, ast.Tuple))
            if one in further or (not is_row and given and item & _names(given)):
                yield name


def _added(node: ast.AST) -> Iterator[tuple[str, ast.expr | None]]:
    """The list that a statement makes longer, and by what; by one element where that is None."""
    if isinstance(node, ast.AugAssign) and isinstance(node.target, ast.Name):
        yield node.target.id, node.value
    elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.args:
        whose, how = node.func.value, node.func.attr
        if isinstance(whose, ast.Name) and how in ("append", "extend"):
            yield whose.id, node.args[0] if how == "extend" else None
