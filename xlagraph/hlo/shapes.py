"""Shapes: ``f32[2,<=4]{1,0:T(8,128)}``, tuples, tokens and buffers as values."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache

from xlagraph.errors import InputError, Location, Source
from xlagraph.hlo.scan import GAP, MAX_DEPTH, MalformedError, bracket_end, skip_space

UNBOUNDED = -1
"""Stands in `Shape.dimensions` for a dimension that is printed ``?``."""

_TYPE = re.compile(r"[A-Za-z][A-Za-z0-9]*+")
_SIZES_TEXT = re.compile(r"\[([^\[\]]*+)\]")
_BUFFER = re.compile(rf"b{GAP}\(")
_LAYOUT_START = re.compile(r"[\d:}.]")
"""What a layout begins with, behind its brace; the body of a computation begins otherwise."""
_DIMENSION = re.compile(r"\s*+(?:(<=)?+\s*+(\d{1,18})|(\?)\s*+(?:<=\s*+(\d{1,18}))?+)\s*+\Z")
_SIZES = r"(?:\d{1,18}(?:,\d{1,18})*+)?+"
_PLAIN_ARRAY = rf"[A-Za-z][A-Za-z0-9]*+\[{_SIZES}\](?:\{{[\d,]*+\}})?+"
_PLAIN_PART = rf"(?:/\*[^*\n]*+\*/)?+{_PLAIN_ARRAY}"
PLAIN_SHAPE = rf"(?:{_PLAIN_ARRAY}|\((?:{_PLAIN_PART}(?:, {_PLAIN_PART})*+)?+\))"
"""Regular expression of the most common shapes: arrays, and tuples of them."""
_IS_PLAIN = re.compile(PLAIN_SHAPE)
_BYTES = re.compile(r"(?:[a-z]+?)(\d++)")
_COMMENT = re.compile(r"/\*.*?\*/|//[^\n]*+", re.S)
_BLANK = re.compile(r"\s++|/\*.*?\*/|//[^\n]*+", re.S)
_UNTIDY = re.compile(r"(?<!,)\s|,\s(?![A-Za-z(/])|//")
"""Space in a shape where XLA prints none."""


@dataclass(frozen=True, slots=True)
class Shape:
    """One shape. Tuples and buffers hold their parts; all other shapes have none."""

    element_type: str
    """``f32``, ``pred``, ``token``, ``opaque``, ...; ``tuple`` or ``buffer`` with `parts`."""
    dimensions: tuple[int, ...] = ()
    """Sizes; the bound of a dynamic dimension, `UNBOUNDED` where none is known."""
    dynamic: tuple[bool, ...] = ()
    """For each dimension, whether its size is known at run time only."""
    layout: str = ""
    """Layout text with its braces, ``""`` where none is printed."""
    parts: tuple[Shape, ...] = ()

    @property
    def is_tuple(self) -> bool:
        """Whether this is a tuple, the empty one included."""
        return self.element_type == "tuple"

    @property
    def elements(self) -> int:
        """Number of elements of an array (dynamic dimensions at their bounds)."""
        count = 1
        for dimension in self.dimensions:
            count *= max(dimension, 0)
        return count

    def byte_size(self) -> int:
        """Bytes of the array or of all tuple parts, packed; 0 for tokens and opaque values."""
        if self.parts:
            return sum(part.byte_size() for part in self.parts)
        return (self.elements * element_bits(self.element_type) + 7) // 8

    def without_layout(self) -> str:
        """The shape's text with no layout anywhere in it."""
        return _shape_text(self, with_layout=False)

    def __str__(self) -> str:
        return _shape_text(self, with_layout=True)


def _shape_text(shape: Shape, *, with_layout: bool) -> str:
    if shape.element_type in ("tuple", "buffer"):
        inner = ", ".join(_shape_text(part, with_layout=with_layout) for part in shape.parts)
        return f"b({inner})" if shape.element_type == "buffer" else f"({inner})"
    sizes = [
        "?" if size == UNBOUNDED else f"<={size}" if dynamic else str(size)
        for size, dynamic in zip(shape.dimensions, shape.dynamic, strict=True)
    ]
    return f"{shape.element_type}[{','.join(sizes)}]{shape.layout if with_layout else ''}"


def element_bits(element_type: str) -> int:
    """Bits of one element; 0 for types that hold no data or are unknown."""
    if element_type == "pred":
        return 8
    match = _BYTES.match(element_type)
    return int(match[1]) if match and len(match[1]) <= 4 else 0


@lru_cache(maxsize=65536)
def read_shape(text: str) -> Shape:
    """Reads the text of one shape; equal texts give the same object.

    Raises:
        InputError: the text is not a shape.
    """
    try:
        shape, end = parse_shape(text, skip_space(text, 0), len(text))
    except MalformedError as error:
        raise InputError(str(error), Location(Source("<shape>", text), error.offset)) from None
    end = skip_space(text, end)
    if end != len(text):
        raise InputError("expected the end of the shape", Location(Source("<shape>", text), end))
    return shape


def check_shape(text: str) -> None:
    """Makes sure that a text is a shape and nothing else, spaced as XLA prints it.

    Raises:
        MalformedError: it is not.
    """
    if not _IS_PLAIN.fullmatch(text):
        _, end = parse_shape(text, 0, len(text))
        if end != len(text):
            raise MalformedError("expected the end of the shape", end)
        if untidy := _UNTIDY.search(text):
            raise MalformedError("unexpected space in a shape", untidy.start())


def tidy_shape(text: str) -> str:
    """The text of a shape, spaced as XLA prints it."""
    return str(read_shape(text)) if _UNTIDY.search(text) else text


def are_compatible(one: str, other: str) -> bool:
    """Whether two texts are one shape, layouts and dynamic sizes left out of account.

    As ``ShapeUtil::Compatible`` (openxla/xla), by which its parser checks operand types.
    """
    return one == other or _bounds(read_shape(one)) == _bounds(read_shape(other))


def _bounds(shape: Shape) -> object:
    return shape.element_type, shape.dimensions, tuple(map(_bounds, shape.parts))


def parse_shape(text: str, pos: int, end: int, depth: int = 0) -> tuple[Shape, int]:
    """Reads the shape that begins at `pos`; returns it and the offset behind it.

    Raises:
        MalformedError: there is no shape at `pos`.
    """
    if depth > MAX_DEPTH:
        raise MalformedError(f"nested deeper than {MAX_DEPTH} levels", pos)
    if text.startswith("(", pos):
        parts, pos = _parse_parts(text, pos + 1, end, depth)
        return Shape("tuple", parts=parts), pos
    if buffer := _BUFFER.match(text, pos):
        parts, pos = _parse_parts(text, buffer.end(), end, depth)
        return Shape("buffer", parts=parts), pos
    name = _TYPE.match(text, pos, end)
    found = _SIZES_TEXT.match(text, skip_space(text, name.end()), end) if name else None
    if not name or not found:
        raise MalformedError("expected a shape", pos)
    sizes, dynamic = _dimensions(found[1], found.start(1))
    start, pos = layout_range(text, found.end(), end)
    return Shape(name[0], sizes, dynamic, _BLANK.sub("", text[start:pos])), pos


def begins_shape(text: str, pos: int) -> bool:
    """Whether a shape begins at `pos`: ``(``, ``b(``, or a type and a bracket."""
    if text.startswith("(", pos) or _BUFFER.match(text, pos):
        return True
    name = _TYPE.match(text, pos)
    return name is not None and text.startswith("[", skip_space(text, name.end()))


def layout_range(text: str, pos: int, end: int) -> tuple[int, int]:
    """Where the layout begins and ends that may stand behind a shape's ``]`` at `pos`.

    As XLA's parser has it (``HloParserImpl::ParseShape``), space may stand before it, and what
    begins with a name is a computation's body. Both offsets are `pos` where there is none.

    Raises:
        MalformedError: the layout is not closed.
    """
    start = pos if text.startswith("{", pos) else skip_space(text, pos)
    if not text.startswith("{", start):
        return pos, pos
    inner = start + 1
    if not _LAYOUT_START.match(text, inner) and not _LAYOUT_START.match(
        text, skip_space(text, inner)
    ):
        return pos, pos
    return start, bracket_end(text, start, end)


def signature_end(text: str, pos: int, end: int) -> int:
    """Offset behind the signature ``(p: f32[2]) -> f32[2]`` that may stand at `pos`.

    Raises:
        MalformedError: the signature is not closed, or has no result shape behind its arrow.
    """
    if not text.startswith("(", pos):
        return pos
    pos = skip_space(text, bracket_end(text, pos, end))
    if text.startswith("->", pos):
        _, pos = parse_shape(text, skip_space(text, pos + 2), end)
        pos = skip_space(text, pos)
    return pos


def _parse_parts(text: str, pos: int, end: int, depth: int) -> tuple[tuple[Shape, ...], int]:
    parts: list[Shape] = []
    pos = skip_space(text, pos)
    while not text.startswith(")", pos):
        if parts:
            if not text.startswith(",", pos):
                raise MalformedError("expected ',' or ')'", pos)
            pos = skip_space(text, pos + 1)
        part, pos = parse_shape(text, pos, end, depth + 1)
        parts.append(part)
        pos = skip_space(text, pos)
    return tuple(parts), pos + 1


def _dimensions(text: str, offset: int) -> tuple[tuple[int, ...], tuple[bool, ...]]:
    if "/" in text:
        text = _COMMENT.sub("", text)
    if not text.strip():
        return (), ()
    sizes: list[int] = []
    dynamic: list[bool] = []
    for part in text.split(","):
        match = _DIMENSION.match(part)
        if not match:
            raise MalformedError(
                "expected a dimension: a number, '<=' and a number, or '?'", offset
            )
        size = match[2] or match[4]
        sizes.append(int(size) if size else UNBOUNDED)
        dynamic.append(bool(match[1] or match[3]))
    return tuple(sizes), tuple(dynamic)
