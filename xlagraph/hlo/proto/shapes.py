"""Shapes and layouts as XLA's text prints them (``shape_util.cc``, ``layout.cc``)."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING

from xlagraph.hlo.proto.schema import CLASSES, Unknown, has_unknown, unknown_fields
from xlagraph.hlo.scan import MAX_DEPTH, MalformedError
from xlagraph.hlo.shapes import check_shape

if TYPE_CHECKING:
    from collections.abc import Iterable

    from xlagraph.hlo.proto.schema import Message

TUPLE, OPAQUE, TOKEN, BUFFER = 13, 14, 17, 34
ELEMENT_TYPES = {
    0: "invalid",
    1: "pred",
    2: "s8",
    3: "s16",
    4: "s32",
    5: "s64",
    6: "u8",
    7: "u16",
    8: "u32",
    9: "u64",
    10: "f16",
    11: "f32",
    12: "f64",
    13: "tuple",
    14: "opaque",
    15: "c64",
    16: "bf16",
    17: "token",
    18: "c128",
    19: "f8e5m2",
    20: "f8e4m3fn",
    21: "s4",
    22: "u4",
    23: "f8e4m3b11fnuz",
    24: "f8e5m2fnuz",
    25: "f8e4m3fnuz",
    26: "s2",
    27: "u2",
    28: "f8e4m3",
    29: "f8e3m4",
    30: "s1",
    31: "u1",
    32: "f4e2m1fn",
    33: "f8e8m0fnu",
    34: "buffer",
    35: "f6e3m2fn",
    36: "f6e2m3fn",
}
"""``PrimitiveType`` by number."""
_WITHOUT_DIMENSIONS = frozenset({OPAQUE, TOKEN})
_UNBOUNDED = -(1 << 63)
_COMBINED = -(1 << 63)
"""A tile's dimension that joins the next one, printed as ``*``."""
_LEVELS = {0: "D", 1: "C", 2: "S", 3: "H"}
_INDEX_INTERVAL = 5
_SHOWN = 80
"""Characters of a wrong shape that its error shows."""


def read_shape(data: bytes) -> str:
    """The text of one serialized ShapeProto; equal bytes are read once.

    Raises:
        DecodeError: the bytes are no message.
        ValueError: it is no shape that a text could state: tuples nest deeper than `MAX_DEPTH`,
            a dimension is negative.
    """
    text = _read(data, 0)
    try:
        check_shape(text)
    except MalformedError as error:
        raise ValueError(f"no shape: {text[:_SHOWN]}: {error}") from None
    return text


@lru_cache(maxsize=65536)
def _read(data: bytes, depth: int) -> str:
    shape = CLASSES["ShapeProto"].FromString(data)
    text = _text(shape, depth)
    if has_unknown(shape):
        unknown = unknown_text(unknown_fields("ShapeProto", data))
        text = _with_unknown(text, unknown) if unknown else text
    return text


def _with_unknown(text: str, unknown: str) -> str:
    """An array's text with more in its layout."""
    if not text.endswith(("}", "]")):
        raise ValueError(f"a shape with fields that this version does not know: {unknown}")
    if text.endswith("]"):
        return f"{text}{{:{unknown}}}"
    colon = "" if ":" in text.partition("{")[2] else ":"
    return f"{text[:-1]}{colon}{unknown}}}"


def unknown_text(unknown: Iterable[Unknown]) -> str:
    """Fields that nobody knows, in a form that differs where they do."""
    return " ".join(f"field.{field.path}={unknown_value(field.value)}" for field in unknown)


def unknown_value(value: object) -> str:
    """The value of an unknown field: bytes as hex, numbers as they are."""
    return f"0x{value.hex()}" if isinstance(value, bytes) else str(value)


def element_type(number: int) -> str:
    """A type's name; types newer than the table are called by their number."""
    return ELEMENT_TYPES.get(number) or f"type{number}"


def shape_text(shape: Message) -> str:
    """A shape with its layout, as instructions print it."""
    return _text(shape, 0)


def _text(shape: Message, depth: int) -> str:
    if depth > MAX_DEPTH:
        raise ValueError(f"a shape nested deeper than {MAX_DEPTH} levels")
    kind = shape.element_type
    if kind in (TUPLE, BUFFER):
        parts = indexed([_read(part, depth + 1) for part in shape.tuple_shapes])
        return f"({parts})" if kind == TUPLE else f"b({parts})"
    name = element_type(kind)
    if kind in _WITHOUT_DIMENSIONS:
        return f"{name}[]"
    dimensions = shape.dimensions[:]
    if shape.is_dynamic_dimension:
        sizes = ",".join(map(_dynamic_size, dimensions, shape.is_dynamic_dimension))
    else:
        sizes = ",".join(map(str, dimensions))
    text = f"{name}[{sizes}]"
    if shape.HasField("layout"):
        layout = layout_text(shape.layout)
        if dimensions or layout != "{}":
            text += layout
    return text


def _dynamic_size(size: int, dynamic: bool) -> str:  # noqa: FBT001
    if not dynamic:
        return str(size)
    return "?" if size == _UNBOUNDED else f"<={size}"


def indexed(parts: list[str]) -> str:
    """Joins parts as XLA does, with ``/*index=5*/`` before every fifth."""
    if len(parts) <= _INDEX_INTERVAL:
        return ", ".join(parts)
    return ", ".join(
        f"/*index={at}*/{part}" if at and at % _INDEX_INTERVAL == 0 else part
        for at, part in enumerate(parts)
    )


def layout_text(layout: Message) -> str:
    """A layout with its braces: ``{1,0:T(8,128)S(1)}``."""
    order = ",".join(map(str, layout.minor_to_major))
    fields = layout.ListFields()
    if not fields or (len(fields) == 1 and order):
        return f"{{{order}}}"
    parts = [
        _levels(layout),
        "T" + "".join(map(_tile, layout.tiles)) if layout.tiles else "",
        _number("L", layout.tail_padding_alignment_in_elements, default=1),
        _type("#", layout.index_primitive_type),
        _type("*", layout.pointer_primitive_type),
        _number("E", layout.element_size_in_bits),
        _number("S", layout.memory_space),
        "SC" + "".join(map(_split, layout.split_configs)) if layout.split_configs else "",
        f"P({read_shape(layout.physical_shape)})" if layout.physical_shape else "",
        _number("M", layout.dynamic_shape_metadata_prefix_bytes),
    ]
    rest = "".join(parts)
    return f"{{{order}:{rest}}}" if rest else f"{{{order}}}"


def _levels(layout: Message) -> str:
    """How sparse dimensions are stored; XLA of 2025 and before had such layouts."""
    if not layout.dim_level_types:
        return ""
    unique, ordered = layout.dim_unique, layout.dim_ordered
    levels = [
        _LEVELS.get(level, "?")
        + ("+" if at < len(unique) and not unique[at] else "")
        + ("~" if at < len(ordered) and not ordered[at] else "")
        for at, level in enumerate(layout.dim_level_types)
    ]
    return f"D({','.join(levels)})"


def _tile(tile: Message) -> str:
    sizes = ("*" if size == _COMBINED else str(size) for size in tile.dimensions)
    return f"({','.join(sizes)})"


def _split(split: Message) -> str:
    return f"({split.dimension}:{','.join(map(str, split.split_indices))})"


def _number(letter: str, value: int, default: int = 0) -> str:
    return f"{letter}({value})" if value not in (0, default) else ""


def _type(sign: str, number: int) -> str:
    return f"{sign}({element_type(number)})" if number else ""
