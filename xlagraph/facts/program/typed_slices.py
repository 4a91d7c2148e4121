"""How a slice at a Python index is written with an index that is sent as data."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING, NamedTuple

from xlagraph.facts.program.slice_objects import slice_object, value_above
from xlagraph.facts.program.written import (
    MAX_WIDTH,
    Statement,
    called_name,
    free_name,
    statements_over,
)

if TYPE_CHECKING:
    from collections.abc import Mapping
    from collections.abc import Set as AbstractSet

_SLICING = frozenset(
    {
        "chunk", "diff", "narrow", "pad", "roll", "select", "slice_scatter", "split",
        "tensor_split", "unbind", "unfold",
    }
)  # fmt: skip
"""Functions that make slices themselves: which one is meant is not known beside them."""

_SIMPLE = (ast.Name, ast.Attribute, ast.BinOp)
"""Expressions that may be a number."""


class TypedSlice(NamedTuple):
    """Statements in the place of one with a slice."""

    first: int
    """The lines to replace."""
    last: int
    code: tuple[str, ...]


class _Moving(NamedTuple):
    """An element of an index that is a Python number, or bounded by some."""

    node: ast.expr
    bounds: ast.Slice | None
    """Of a slice, also of one that has a name."""
    sent: str
    """A tensor of what it takes."""
    dimension: int
    """Of what is left if it takes everything."""

    @property
    def is_number(self) -> bool:
        return self.bounds is None


def typed_slice(
    lines: Mapping[int, str], number: int, widths: AbstractSet[int], *, is_written: bool
) -> TypedSlice | None:
    """The statement on this line with its slice as data; None where that is not understood.

    Args:
        lines: those known of the file, by number.
        number: the line of the slice.
        widths: how much the graph takes along the dimensions in which it moves.
        is_written: values are assigned to it.
    """
    for statement in statements_over(lines, number):
        found = _subscripts(statement, lines)
        if found and _are_tensors(found) and not _slices_otherwise(statement.node):
            is_this = _has_widths([one for _, moving in found for one in moving], widths)
            return _typed(statement, found, is_written=is_written) if is_this else None
    return None


def slice_bounds(lines: Mapping[int, str], number: int) -> tuple[str, str]:
    """Where the one slice of this line begins, and what it ends before, as the program says it.

    Empty where it has no such bound, or several slices that may be meant.
    """
    for statement in statements_over(lines, number):
        found = [one for _, moving in _subscripts(statement, lines) for one in moving]
        if len(found) == 1 and not _slices_otherwise(statement.node):
            node, bounds = found[0].node, found[0].bounds
            if bounds is None:
                return (statement.segment(node), "")
            own = statement.segment if bounds is node else ast.unparse
            lower, upper = (own(one) if one else "" for one in (bounds.lower, bounds.upper))
            return lower, upper
    return "", ""


def _slices_otherwise(node: ast.stmt) -> bool:
    calls = (one for one in ast.walk(node) if isinstance(one, ast.Call))
    return any(called_name(call) in _SLICING for call in calls)


def _has_widths(moving: list[_Moving], widths: AbstractSet[int]) -> bool:
    """Whether these may be what takes so much in the graph: a number takes one.

    A name that takes more is no number, and one beside slices of lengths that are not known, or
    where nothing takes one, may be none.
    """
    has_numbers = any(one.is_number for one in moving)
    spans = {_span(one.bounds) for one in moving if one.bounds}
    if None in spans:
        return not has_numbers
    known = spans | {1} if has_numbers else spans
    return widths <= known and (not has_numbers or 1 in widths)


def _span(bounds: ast.Slice) -> int | None:
    """How much a slice takes, of one from ``i`` to ``i + 2``; None where that is not known."""
    upper = bounds.upper
    if not (bounds.lower and isinstance(upper, ast.BinOp) and isinstance(upper.op, ast.Add)):
        return None
    is_from = ast.dump(upper.left) == ast.dump(bounds.lower)
    added = upper.right.value if isinstance(upper.right, ast.Constant) else None
    return added if is_from and isinstance(added, int) else None


def _subscripts(
    statement: Statement, lines: Mapping[int, str]
) -> list[tuple[ast.Subscript, list[_Moving]]]:
    """Those with an index that is no constant; annotations aside."""
    node = statement.node
    annotated = node.annotation if isinstance(node, ast.AnnAssign) else None
    aside = {id(one) for one in ast.walk(annotated)} if annotated else set()
    subscripts = (
        one for one in ast.walk(node) if isinstance(one, ast.Subscript) and id(one) not in aside
    )
    found = ((one, _moving(one, lines, statement.first)) for one in subscripts)
    return [(one, moving) for one, moving in found if moving]


def _moving(subscript: ast.Subscript, lines: Mapping[int, str], number: int) -> list[_Moving]:
    index = subscript.slice
    elements = index.elts if isinstance(index, ast.Tuple) else [index]
    dots = next((k for k, one in enumerate(elements) if _is_dots(one)), len(elements))
    kept = [k for k, one in enumerate(elements) if not _is_fixed_number(one)]
    found = []
    for place, k in enumerate(kept):
        one = elements[k]
        value = value_above(lines, number, one.id) if isinstance(one, ast.Name) else None
        bounds = one if isinstance(one, ast.Slice) else slice_object(value)
        if not (isinstance(one, ast.Constant) or _is_constant_slice(bounds)):
            dimension = place if k < dots else place - len(kept)
            found.append(_Moving(one, bounds, _index(one, bounds, value), dimension))
    return found


def _is_dots(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and node.value is Ellipsis


def _is_fixed_number(node: ast.expr) -> bool:
    inner = node.operand if isinstance(node, ast.UnaryOp) else node
    return isinstance(inner, ast.Constant) and type(inner.value) is int


def _is_constant_slice(node: ast.Slice | None) -> bool:
    if node is None:
        return False
    bounds = [one for one in (node.lower, node.upper, node.step) if one]
    return all(_is_fixed_number(one) for one in bounds)


def _index(node: ast.expr, bounds: ast.Slice | None, value: ast.expr | None) -> str:
    """What it takes, as a tensor on the host; empty where that is not understood.

    Args:
        node: an element of an index.
        bounds: if it is a slice.
        value: what it was given, if it is a name of which that is known.
    """
    if bounds:
        if bounds.lower is None or bounds.upper is None or bounds.step:
            return ""
        if any(isinstance(one, ast.UnaryOp) for one in (bounds.lower, bounds.upper)):
            return ""  # counted from the end
        ends = (f"{node.id}.start", f"{node.id}.stop") if isinstance(node, ast.Name) else ()
        first, stop = ends or (ast.unparse(bounds.lower), ast.unparse(bounds.upper))
        return f"torch.arange({first}, {stop})"
    is_number = isinstance(node, _SIMPLE) and not (value and _is_several(value))
    return f"torch.tensor([{ast.unparse(node)}])" if is_number else ""


def _is_several(value: ast.expr) -> bool:
    """Whether it is a slice of another form, or holds several indices."""
    is_slice = isinstance(value, ast.Call) and called_name(value) == "slice"
    if isinstance(value, ast.Subscript):  # np.s_[a:b]
        return isinstance(value.slice, (ast.Slice, ast.Tuple))
    return is_slice or isinstance(value, (ast.Tuple, ast.List, ast.ListComp))


def _typed(
    statement: Statement, found: list[tuple[ast.Subscript, list[_Moving]]], *, is_written: bool
) -> TypedSlice | None:
    for _, moving in found:
        numbers = sum(one.is_number for one in moving)
        if not all(one.sent for one in moving) or (numbers and len(moving) > 1):
            return None
    sent = [[f"{one.sent}.to({_device(statement, of)})" for one in moving] for of, moving in found]
    distinct = list(dict.fromkeys(text for texts in sent for text in texts))
    if _bound_within(statement.node) & {name for text in distinct for name in _names(text)}:
        above, names = [], sent  # what is known there alone has to stay there
    else:
        stem = free_name("index", statement)
        stems = [stem] if len(distinct) == 1 else [f"{stem}_{k}" for k in range(len(distinct))]
        name_of = dict(zip(distinct, stems, strict=True))
        above = [f"{name} = {text}" for text, name in name_of.items()]
        names = [[name_of[text] for text in texts] for texts in sent]
    if _is_target(statement.node, found[0][0]):
        below = _written(statement, *found[0], names[0]) if is_written else ()
    else:
        below = () if is_written else _read(statement, found, names)
    code = (*above, *below)
    if not below or max(map(len, code)) > MAX_WIDTH:
        return None
    return TypedSlice(statement.first, statement.last, code)


def _bound_within(node: ast.stmt) -> set[str]:
    """The names that a comprehension or a lambda within a statement gives values."""
    inner = [one for one in ast.walk(node) if isinstance(one, (ast.comprehension, ast.Lambda))]
    targets = [one.target if isinstance(one, ast.comprehension) else one.args for one in inner]
    parts = [part for target in targets for part in ast.walk(target)]
    names = {part.id for part in parts if isinstance(part, ast.Name)}
    return names | {part.arg for part in parts if isinstance(part, ast.arg)}


def _names(text: str) -> set[str]:
    return {one.id for one in ast.walk(ast.parse(text)) if isinstance(one, ast.Name)}


def _device(statement: Statement, subscript: ast.Subscript) -> str:
    is_plain = not any(isinstance(one, ast.Call) for one in ast.walk(subscript.value))
    return f"{statement.segment(subscript.value)}.device" if is_plain else '"xla"'


def _are_tensors(found: list[tuple[ast.Subscript, list[_Moving]]]) -> bool:
    """Whether all of them index tensors, of which one does: a list takes no ``[:, a:b]``.

    None of them stands within another one.
    """
    subscripts = [one for one, _ in found]
    inner = {id(part) for one in subscripts for part in ast.walk(one) if part is not one}
    if inner & set(map(id, subscripts)):
        return False
    is_one = len({ast.dump(one.value) for one in subscripts}) == 1
    return is_one or all(
        isinstance(one.slice, ast.Tuple)
        and any(isinstance(element, ast.Slice) or _is_dots(element) for element in one.slice.elts)
        for one in subscripts
    )


def _is_target(node: ast.stmt, subscript: ast.Subscript) -> bool:
    targets = node.targets if isinstance(node, ast.Assign) else []
    return any(one is subscript for one in targets)


def _read(
    statement: Statement,
    found: list[tuple[ast.Subscript, list[_Moving]]],
    names: list[list[str]],
) -> tuple[str, ...]:
    """The statement with ``index_select``; empty where a slice is changed in place."""
    edits: list[tuple[ast.expr, str]] = []
    for (subscript, moving), mine in zip(found, names, strict=True):
        is_read = isinstance(subscript.ctx, ast.Load)
        if not is_read or _is_changed(statement.node, subscript):
            return ()
        text = _whole(statement, subscript, moving)
        for name, one in zip(mine, moving, strict=True):
            text += f".index_select({one.dimension}, {name})"
            text += f".squeeze({one.dimension})" if one.is_number else ""
        edits.append((subscript, text))
    return statement.replaced(edits)


def _whole(statement: Statement, subscript: ast.Subscript, moving: list[_Moving]) -> str:
    """What is sliced, with all that the moving elements pick from."""
    index = subscript.slice
    elements = index.elts if isinstance(index, ast.Tuple) else [index]
    picked = {id(one.node) for one in moving}
    texts = [":" if id(one) in picked else ast.unparse(one) for one in elements]
    base = statement.segment(subscript.value)
    needs_brackets = isinstance(subscript.value, (ast.BinOp, ast.UnaryOp, ast.IfExp))
    base = f"({base})" if needs_brackets else base
    return base if set(texts) <= {":", "..."} else f"{base}[{', '.join(texts)}]"


def _is_changed(node: ast.stmt, subscript: ast.Subscript) -> bool:
    """Whether a method that works in place is called on it: ``x[a:b].add_(1)``."""
    return any(
        isinstance(one, ast.Attribute) and one.value is subscript and one.attr.endswith("_")
        for one in ast.walk(node)
    )


def _written(
    statement: Statement, subscript: ast.Subscript, moving: list[_Moving], names: list[str]
) -> tuple[str, ...]:
    """The assignment at an index; a number's with a value that has the dimension as well."""
    node = statement.node
    if not isinstance(node, ast.Assign) or len(node.targets) != 1 or len(moving) != 1:
        return ()
    index = subscript.slice
    elements = index.elts if isinstance(index, ast.Tuple) else [index]
    others = [one for one in elements if one is not moving[0].node]
    if not all(isinstance(one, ast.Slice) or _is_dots(one) for one in others):
        return ()
    if not moving[0].is_number:
        return statement.replaced([(moving[0].node, names[0])])
    if isinstance(node.value, ast.Constant):
        return ()
    whole, dimension = _whole(statement, subscript, moving), moving[0].dimension
    value = statement.segment(node.value)
    is_one = isinstance(node.value, (ast.Name, ast.Attribute, ast.Call, ast.Subscript))
    value = value if is_one else f"({value})"
    return (f"{whole}.index_copy_({dimension}, {names[0]}, {value}.unsqueeze({dimension}))",)
