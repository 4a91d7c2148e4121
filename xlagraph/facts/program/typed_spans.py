"""How a number is given to a span whose ends Python computes, with ends that are sent as data."""

from __future__ import annotations

import ast
import re
from typing import TYPE_CHECKING, NamedTuple

from xlagraph.facts.program.written import MAX_WIDTH, Statement, statements_over

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping


class TypedSpan(NamedTuple):
    """Statements in the place of an assignment to a span."""

    first: int
    """The lines to replace."""
    last: int
    code: tuple[str, ...]
    """Empty where that is not understood."""


def typed_span(lines: Mapping[int, str], number: int) -> TypedSpan | None:
    """The assignment of a number to a slice on this line, as a mask; None if there is none.

    It fills in place, as the assignment does: others may hold the same tensor.

    Args:
        lines: those known of the file, by number.
        number: the line of the assignment.
    """
    for statement in statements_over(lines, number):
        node = statement.node
        if not isinstance(node, ast.Assign) or not _is_number(node.value):
            continue
        target = node.targets[0]
        if isinstance(target, ast.Subscript) and any(map(_is_moving, _elements(target))):
            code = _code(lines, statement, target) if len(node.targets) == 1 else ()
            is_short = max(map(len, code), default=0) <= MAX_WIDTH
            return TypedSpan(statement.first, statement.last, code if is_short else ())
    return None


def _is_number(value: ast.expr) -> bool:
    inner = value.operand if isinstance(value, ast.UnaryOp) else value
    return isinstance(inner, ast.Constant) and isinstance(inner.value, (int, float))


def _elements(subscript: ast.Subscript) -> list[ast.expr]:
    index = subscript.slice
    return index.elts if isinstance(index, ast.Tuple) else [index]


def _is_moving(element: ast.expr) -> bool:
    """Whether it is a slice with an end that is computed."""
    return isinstance(element, ast.Slice) and any(
        not (end is None or isinstance(end, ast.Constant)) for end in (element.lower, element.upper)
    )


def _is_dots(element: ast.expr) -> bool:
    return isinstance(element, ast.Constant) and element.value is Ellipsis


def _is_whole(element: ast.expr) -> bool:
    return isinstance(element, ast.Slice) and not (element.lower or element.upper or element.step)


def _code(lines: Mapping[int, str], statement: Statement, target: ast.Subscript) -> tuple[str, ...]:
    elements = _elements(target)
    moving = [k for k, one in enumerate(elements) if _is_moving(one)]
    others = [one for k, one in enumerate(elements) if k not in moving]
    is_plain = not any(isinstance(one, ast.Call) for one in ast.walk(target.value))
    if not is_plain or not all(_is_whole(one) or _is_dots(one) for one in others):
        return ()
    of = statement.segment(target.value)
    used = set(re.findall(r"\w+", "\n".join(lines.values())))
    dots = next((k for k, one in enumerate(elements) if _is_dots(one)), len(elements))
    above: list[str] = []
    masks: list[str] = []
    for k in moving:
        stroke = f"_{moving.index(k)}" if len(moving) > 1 else ""
        place, start, end = (_free(f"{name}{stroke}", used) for name in ("place", "start", "end"))
        dimension = k if k < dots else k - len(elements)
        above.append(f"{place} = {_places(of, dimension)}")
        element = elements[k]
        if not isinstance(element, ast.Slice) or element.step:
            return ()
        for name, bound, sign in ((start, element.lower, ">="), (end, element.upper, "<")):
            if bound is None:
                continue
            if isinstance(bound, ast.UnaryOp):  # counted from the end
                return ()
            above.append(f"{name} = torch.tensor([{statement.segment(bound)}]).to({of}.device)")
            masks.append(f"({place} {sign} {name})")
    value = statement.segment(statement.node.value)  # type: ignore[attr-defined]
    return (*above, *_filled(of, masks, value))


def _places(of: str, dimension: int) -> str:
    """The places along a dimension, shaped so that it stands before those behind it."""
    found = f"torch.arange({of}.shape[{dimension}], device={of}.device)"
    if dimension >= 0:  # how many are behind it is not known here
        return f"{found}.reshape(-1, *[1] * ({of}.dim() - {dimension + 1}))"
    behind = ", 1" * (-dimension - 1)
    return f"{found}.reshape(-1{behind})" if behind else found


def _filled(of: str, masks: list[str], value: str) -> Iterator[str]:
    whole = f"{of}.masked_fill_({' & '.join(masks)}, {value})"
    if len(whole) <= MAX_WIDTH:
        yield whole
        return
    yield f"{of}.masked_fill_("
    yield f"    {' & '.join(masks)}, {value}"
    yield ")"


def _free(name: str, used: set[str]) -> str:
    """A name, or one with strokes behind it, that no line has."""
    while name in used:
        name += "_"
    return name
