"""Literals as XLA's text prints them on one line (``literal.cc``).

Time and memory are linear in the number of elements: rows are printed one after another, some
thousand elements at a time.
"""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING

from xlagraph.hlo.proto.numbers import TYPES
from xlagraph.hlo.proto.shapes import TOKEN, TUPLE, shape_text

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from xlagraph.hlo.proto.numbers import ElementType, Numbers
    from xlagraph.hlo.proto.schema import Message

ELIDED = "{...}"
"""What stands for a literal whose values are not known."""
MAX_BRACES = 1 << 20
"""Brackets of a literal without elements; a shape such as ``f32[99999999,0]`` has many."""
_CHUNK = 1 << 12
_PRED = 1


class LiteralError(ValueError):
    """A literal that holds more or fewer values than its shape."""


def literal_text(literal: Message) -> str:
    """A literal without its shape: ``{ {1, 2}, {3, 4} }``; `ELIDED` where values are missing.

    Raises:
        LiteralError: the number of values does not fit the shape.
    """
    return _text(literal, with_shape=False)


def shaped_literal_text(literal: Message) -> str:
    """A literal behind its shape, as ``literal=`` of a custom call: ``f32[2]{0} {1, 2}``.

    Raises:
        LiteralError: as `literal_text`.
    """
    return _text(literal, with_shape=True)


def _text(literal: Message, *, with_shape: bool) -> str:
    shape = literal.shape
    if shape.element_type == TUPLE:
        found, wanted = len(literal.tuple_literals), len(shape.tuple_shapes)
        if found != wanted:
            raise LiteralError(f"a tuple literal of {found} parts for a shape of {wanted}")
        parts = [_text(part, with_shape=with_shape) for part in literal.tuple_literals]
        return f"( {', '.join(parts)} )"
    if shape.element_type == TOKEN:
        return "token"
    text = _array_text(literal)
    if not with_shape:
        return text
    sizes = ",".join(map(str, literal.dynamic_sizes)) if any(shape.is_dynamic_dimension) else ""
    return f"{shape_text(shape)}{f'({sizes})' if sizes else ''} {text}"


def _array_text(literal: Message) -> str:
    kind = TYPES.get(literal.shape.element_type)
    if kind is None:
        return ELIDED
    bounds: Sequence[int] = literal.shape.dimensions[:]
    sizes: Sequence[int] = literal.dynamic_sizes[:] or bounds
    if len(sizes) != len(bounds) or any(
        not 0 <= s <= b for s, b in zip(sizes, bounds, strict=True)
    ):
        raise LiteralError(f"a literal of {sizes} for a shape of {bounds}")
    numbers = kind.decode(getattr(literal, kind.field))
    count: int = prod(bounds)
    if not numbers and count:
        return ELIDED
    if len(numbers) != count * kind.width:
        raise LiteralError(f"a literal of {len(numbers)} values for a shape of {count}")
    places = _places(bounds, sizes, literal.shape.layout.minor_to_major[:])
    if not bounds:
        scalar = kind.texts(numbers)[0]
        return {"1": "true", "0": "false"}[scalar] if _is_pred(literal) else scalar
    return _nested(_rows(kind, numbers, places, sizes), sizes)


def _is_pred(literal: Message) -> bool:
    return bool(literal.shape.element_type == _PRED)


def _places(bounds: Sequence[int], sizes: Sequence[int], order: Sequence[int]) -> Sequence[int]:
    """Where the elements are stored, in the order in which they are printed.

    Values lie as the layout of the literal's shape says, up to the bounds of dynamic dimensions.
    """
    rank = len(bounds)
    usual = list(range(rank - 1, -1, -1))
    if sorted(order) != usual[::-1]:
        order = usual
    if list(order) == usual and list(sizes) == list(bounds):
        return range(prod(bounds))
    steps = [0] * rank
    step = 1
    for dimension in order:
        steps[dimension] = step
        step *= bounds[dimension]
    places = [0]
    for size, step in zip(sizes, steps, strict=True):
        places = [place + at * step for place in places for at in range(size)]
    return places


def _rows(
    kind: ElementType, numbers: Numbers, places: Sequence[int], sizes: Sequence[int]
) -> Iterator[str]:
    """The innermost rows, without braces."""
    size = sizes[-1]
    if not size:
        return
    if isinstance(places, list):
        numbers = _picked(numbers, places, kind.width)
    step = max(_CHUNK // size, 1) * size
    for start in range(0, len(places), step):
        if size > _CHUNK:
            parts = (
                ", ".join(
                    kind.texts(
                        numbers[at * kind.width : min(at + _CHUNK, start + size) * kind.width]
                    )
                )
                for at in range(start, start + size, _CHUNK)
            )
            yield ", ".join(parts)
            continue
        texts = kind.texts(numbers[start * kind.width : (start + step) * kind.width])
        for at in range(0, len(texts), size):
            yield ", ".join(texts[at : at + size])


def _picked(numbers: Numbers, places: Sequence[int], width: int) -> Numbers:
    """The numbers of the elements at some places, in that order, bit for bit."""
    if isinstance(numbers, bytes):
        return bytes([numbers[at] for at in places])
    picked = numbers[:0]
    for at in places:
        picked += numbers[at * width : (at + 1) * width]  # type: ignore[operator]
    return picked


def _nested(rows: Iterator[str], sizes: Sequence[int]) -> str:
    """Puts braces around the innermost rows first, then around rows of rows."""
    rank, inner = len(sizes), sizes[-1]
    if rank == 1:
        return f"{{{next(rows, '')}}}"
    if sum(prod(sizes[:axis]) for axis in range(rank)) > MAX_BRACES and not prod(sizes):
        return ELIDED
    opening, closing = ("{", "}") if inner <= 1 else ("{ ", " }")
    made = rows if inner else iter([""] * prod(sizes[:-1]))
    items = [f"{opening}{row}{closing}" for row in made]
    for axis in range(rank - 2, -1, -1):
        size = sizes[axis]
        groups = [items[at * size : (at + 1) * size] for at in range(prod(sizes[:axis]))]
        if axis and rank > 3:
            around = sizes[axis - 1]
            gap = " " if size else ""
            items = [
                f"{{ /*i{axis - 1}={at % around}*/{gap}{', '.join(group)} }}"
                for at, group in enumerate(groups)
            ]
        else:
            items = [f"{{ {', '.join(group)} }}" for group in groups]
    return items[0]
