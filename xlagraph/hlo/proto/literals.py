"""Literals as XLA's text prints them on one line (``literal.cc``, ``util.cc``).

Time and memory are linear in the number of elements; texts are made some thousand elements at
a time.
"""

from __future__ import annotations

import struct
import sys
from array import array
from functools import lru_cache
from math import prod
from typing import TYPE_CHECKING, NamedTuple

from xlagraph.hlo.proto.shapes import BUFFER, TOKEN, TUPLE, element_type, shape_text

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from xlagraph.hlo.proto.schema import Message

ELIDED = "{...}"
"""What stands for a literal whose values are not known."""
MAX_BRACES = 1 << 20
"""Brackets of a literal without elements; a shape such as ``f32[99999999,0]`` has many."""
_CHUNK = 1 << 12


class LiteralError(ValueError):
    """A literal that holds more or fewer values than its shape."""


class _Kind(NamedTuple):
    field: str
    """Field of LiteralProto that holds the values."""
    texts: Callable[[Sequence[object] | bytes], list[str]]


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
    kind = shape.element_type
    if kind == TUPLE:
        if len(literal.tuple_literals) != len(shape.tuple_shapes):
            found, wanted = len(literal.tuple_literals), len(shape.tuple_shapes)
            raise LiteralError(f"a tuple literal of {found} parts for a shape of {wanted}")
        parts = [_text(part, with_shape=with_shape) for part in literal.tuple_literals]
        return f"( {', '.join(parts)} )"
    if kind == TOKEN:
        return "token"
    head = ""
    if with_shape:
        sizes = ",".join(map(str, literal.dynamic_sizes)) if any(shape.is_dynamic_dimension) else ""
        head = f"{shape_text(shape)}{f'({sizes})' if sizes else ''} "
    return head + _array_text(literal, shape)


def _array_text(literal: Message, shape: Message) -> str:
    kind = _KINDS.get(shape.element_type)
    if kind is None or shape.element_type == BUFFER:
        return ELIDED
    dimensions: list[int] = shape.dimensions[:]
    if any(size < 0 for size in dimensions):
        raise LiteralError("a literal of a shape with a negative dimension")
    count = prod(dimensions)
    texts = kind.texts(getattr(literal, kind.field))
    if not texts and count:
        return ELIDED
    if not count <= len(texts) < count + _PADDING.get(shape.element_type, 1):
        raise LiteralError(f"a literal of {len(texts)} values for a shape of {count}")
    del texts[count:]
    texts = _in_row_major_order(texts, dimensions, literal)
    if literal.dynamic_sizes:
        dimensions = list(literal.dynamic_sizes)
    if shape.element_type == _PRED:
        texts = [_BOOLS[text] for text in texts] if not dimensions else texts
    return _nested(texts, dimensions)


def _in_row_major_order(texts: list[str], dimensions: list[int], literal: Message) -> list[str]:
    """Values are stored as the layout of the literal's shape says; they are printed by index."""
    rank = len(dimensions)
    order = literal.shape.layout.minor_to_major[:]
    sizes = list(literal.dynamic_sizes) or dimensions
    if len(sizes) != rank or any(not 0 <= s <= d for s, d in zip(sizes, dimensions, strict=True)):
        raise LiteralError("a literal whose dynamic sizes do not fit its shape")
    if sorted(order) != list(range(rank)):
        order = list(range(rank - 1, -1, -1))
    if (order == list(range(rank - 1, -1, -1)) and sizes == dimensions) or not texts:
        return texts
    strides = [0] * rank
    stride = 1
    for dimension in order:
        strides[dimension] = stride
        stride *= dimensions[dimension]
    places = [0]
    for size, step in zip(sizes, strides, strict=True):
        places = [place + at * step for place in places for at in range(size)]
    return [texts[place] for place in places]


def _nested(items: list[str], dimensions: list[int]) -> str:
    """Puts braces around the innermost rows first, then around rows of rows."""
    rank = len(dimensions)
    if not rank:
        return items[0]
    if rank == 1:
        return f"{{{', '.join(items)}}}"
    if not items and sum(prod(dimensions[:axis]) for axis in range(rank)) > MAX_BRACES:
        return ELIDED
    for axis in range(rank - 1, -1, -1):
        size, groups = dimensions[axis], prod(dimensions[:axis])
        rows = (", ".join(items[at * size : (at + 1) * size]) for at in range(groups))
        if axis == rank - 1:
            opening, closing = ("{", "}") if size <= 1 else ("{ ", " }")
            items = [f"{opening}{row}{closing}" for row in rows]
        elif axis and rank > 3:
            around = dimensions[axis - 1]
            gap = " " if size else ""
            items = [
                f"{{ /*i{axis - 1}={at % around}*/{gap}{row} }}" for at, row in enumerate(rows)
            ]
        else:
            items = [f"{{ {row} }}" for row in rows]
    return items[0]


# --- numbers -------------------------------------------------------------------------------


def _plain(values: Sequence[object] | bytes) -> list[str]:
    return list(map(str, values))


def _floats(digits: int, more: int, code: str) -> Callable[[Sequence[object] | bytes], list[str]]:
    """Shortest of two precisions that reads back as the same number, as XLA prints floats."""

    def texts(values: Sequence[object] | bytes) -> list[str]:
        made: list[str] = []
        for at in range(0, len(values), _CHUNK):
            made += chunk(values[at : at + _CHUNK])
        return made

    def chunk(values: Sequence[object] | bytes) -> list[str]:
        numbers = array(code, values)
        made = (f"%.{digits}g " * len(numbers) % tuple(numbers)).split()
        again = array(code, map(float, made))
        if again != numbers:
            for at, (found, wanted) in enumerate(zip(again, numbers, strict=True)):
                if wanted != wanted:
                    made[at] = _nan(numbers[at : at + 1].tobytes(), _MANTISSA[code])
                elif found != wanted:
                    made[at] = f"%.{more}g" % wanted
        return made

    return texts


_MANTISSA = {"f": 23, "d": 52}


def _nan(data: bytes, mantissa: int) -> str:
    """``nan``, with its sign, and with its payload where that is not the usual one."""
    number = int.from_bytes(data, sys.byteorder)
    payload = number & ((1 << mantissa) - 1)
    sign = "-" if number >> (len(data) * 8 - 1) else ""
    usual = payload == 1 << (mantissa - 1)
    return f"{sign}nan" if usual else f"{sign}nan(0x{payload:x})"


f32_texts = _floats(6, 9, "f")
f64_texts = _floats(15, 17, "d")


def _complex(
    texts: Callable[[Sequence[object] | bytes], list[str]],
) -> Callable[[Sequence[object] | bytes], list[str]]:
    def pairs(values: Sequence[object] | bytes) -> list[str]:
        parts = texts(values)
        return [f"({a}, {b})" for a, b in zip(parts[::2], parts[1::2], strict=True)]

    return pairs


def _integers(code: str) -> Callable[[Sequence[object] | bytes], list[str]]:
    def texts(values: Sequence[object] | bytes) -> list[str]:
        return list(map(str, _numbers(values, code)))

    return texts


def _numbers(values: Sequence[object] | bytes, code: str) -> array[int]:
    """Little-endian integers."""
    numbers = array(code)
    data = bytes(values)  # type: ignore[arg-type]
    if len(data) % numbers.itemsize:
        raise LiteralError(f"a literal of {len(data)} bytes, with {numbers.itemsize} to a value")
    numbers.frombytes(data)
    if sys.byteorder == "big":
        numbers.byteswap()
    return numbers


def _by_table(
    table: Callable[[int], str], code: str
) -> Callable[[Sequence[object] | bytes], list[str]]:
    def texts(values: Sequence[object] | bytes) -> list[str]:
        return list(map(table, _numbers(values, code)))

    return texts


@lru_cache(maxsize=1 << 16)
def _bf16(number: int) -> str:
    value = struct.unpack("<f", struct.pack("<I", number << 16))[0]
    return _nan(number.to_bytes(2, sys.byteorder), 7) if value != value else f"{value:.4g}"


@lru_cache(maxsize=1 << 16)
def _f16(number: int) -> str:
    value = struct.unpack("<e", struct.pack("<H", number))[0]
    return _nan(number.to_bytes(2, sys.byteorder), 10) if value != value else f"{value:.5g}"


class _Small(NamedTuple):
    """A float of at most eight bits."""

    exponent: int
    mantissa: int
    bias: int
    nan: str
    """``ieee`` has infinities and NaNs, ``top`` one NaN of all ones, ``zero`` one in place of
    minus zero, ``none`` none of them."""
    digits: int
    is_signed: bool = True


def _small_float(format_: _Small) -> Callable[[int], str]:
    @lru_cache(maxsize=256)
    def text(number: int) -> str:
        exponent_bits, mantissa_bits, bias, nan, digits, is_signed = format_
        mantissa = number & ((1 << mantissa_bits) - 1)
        exponent = (number >> mantissa_bits) & ((1 << exponent_bits) - 1)
        sign = is_signed and number >> (exponent_bits + mantissa_bits) & 1
        ones = (1 << exponent_bits) - 1
        if nan == "zero" and sign and not mantissa and not exponent:
            return "-nan"
        if nan == "top" and exponent == ones and mantissa == (1 << mantissa_bits) - 1:
            return "-nan" if sign else "nan"
        if nan == "ieee" and exponent == ones:
            if not mantissa:
                return "-inf" if sign else "inf"
            usual = mantissa == 1 << (mantissa_bits - 1)
            return f"{'-' if sign else ''}nan{'' if usual else f'(0x{mantissa:x})'}"
        if exponent or not is_signed:
            value = (1 + mantissa / (1 << mantissa_bits)) * 2.0 ** (exponent - bias)
        else:
            value = mantissa / (1 << mantissa_bits) * 2.0 ** (1 - bias)
        return f"{-value if sign else value:.{digits}g}"

    return text


def _packed(bits: int, *, is_signed: bool) -> Callable[[Sequence[object] | bytes], list[str]]:
    """Integers of less than a byte; the first one has the highest bits of its byte."""
    half, whole = 1 << (bits - 1), 1 << bits
    shifts = range(8 - bits, -1, -bits)

    def texts(values: Sequence[object] | bytes) -> list[str]:
        numbers = ((byte >> shift) & (whole - 1) for byte in bytes(values) for shift in shifts)  # type: ignore[arg-type]
        return [str(n - whole if is_signed and n >= half else n) for n in numbers]

    return texts


_SMALL = {
    "f8e5m2": _Small(5, 2, 15, "ieee", 2),
    "f8e4m3": _Small(4, 3, 7, "ieee", 3),
    "f8e3m4": _Small(3, 4, 3, "ieee", 3),
    "f8e4m3fn": _Small(4, 3, 7, "top", 3),
    "f8e4m3b11fnuz": _Small(4, 3, 11, "zero", 3),
    "f8e5m2fnuz": _Small(5, 2, 16, "zero", 2),
    "f8e4m3fnuz": _Small(4, 3, 8, "zero", 3),
    "f8e8m0fnu": _Small(8, 0, 127, "top", 2, is_signed=False),
    "f6e3m2fn": _Small(3, 2, 3, "none", 2),
    "f6e2m3fn": _Small(2, 3, 1, "none", 3),
}
_PRED = 1
_BOOLS = {"0": "false", "1": "true"}
_NUMBER_OF = {element_type(number): number for number in range(1, 37)}
_KINDS = {
    _NUMBER_OF[name]: _Kind(field, texts)
    for name, field, texts in [
        ("pred", "preds", lambda values: ["1" if value else "0" for value in values]),
        ("s8", "s8s", _integers("b")),
        ("u8", "u8s", _integers("B")),
        ("s16", "s16s", _integers("h")),
        ("u16", "u16s", _integers("H")),
        ("s32", "s32s", _plain),
        ("s64", "s64s", _plain),
        ("u32", "u32s", _plain),
        ("u64", "u64s", _plain),
        ("f32", "f32s", f32_texts),
        ("f64", "f64s", f64_texts),
        ("c64", "c64s", _complex(f32_texts)),
        ("c128", "c128s", _complex(f64_texts)),
        ("f16", "f16s", _by_table(_f16, "H")),
        ("bf16", "bf16s", _by_table(_bf16, "H")),
        ("s1", "s1s", _packed(1, is_signed=True)),
        ("s2", "s2s", _packed(2, is_signed=True)),
        ("s4", "s4s", _packed(4, is_signed=True)),
        ("u1", "u1s", _packed(1, is_signed=False)),
        ("u2", "u2s", _packed(2, is_signed=False)),
        ("u4", "u4s", _packed(4, is_signed=False)),
    ]
}
_KINDS.update(
    {
        _NUMBER_OF[name]: _Kind(f"{name}s", _by_table(_small_float(format_), "B"))
        for name, format_ in _SMALL.items()
    }
)
_PADDING = {_NUMBER_OF[f"{sign}{bits}"]: 8 // bits for sign in "su" for bits in (1, 2, 4)}
"""How many more values than elements the last byte of a packed literal may seem to hold."""
