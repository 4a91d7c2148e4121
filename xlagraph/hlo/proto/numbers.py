"""Element types: how a literal's values are stored, and how XLA's text prints them.

Sources: ``literal.cc`` (``WriteToProto``, ``GetAsString``) and ``util.cc``
(``RoundTripFpToString``): a float is printed with few digits where these read back as the same
number, else with as many as its type needs.
"""

from __future__ import annotations

import struct
import sys
from array import array
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any, NamedTuple

from xlagraph.hlo.proto.shapes import ELEMENT_TYPES

Numbers = Sequence[Any]
"""Stored values, one or two for each element; slices are of the same type."""


class ElementType(NamedTuple):
    """One element type."""

    field: str
    """Field of LiteralProto that holds the values."""
    decode: Callable[[Any], Numbers]
    """The field's value as numbers."""
    texts: Callable[[Numbers], list[str]]
    """Numbers as text, one text for each element."""
    width: int = 1
    """Numbers for each element: two for complex types."""


def _stored(code: str) -> Callable[[Any], Numbers]:
    """Little-endian numbers of one size, as a field of bytes has them."""

    def decode(data: bytes) -> Numbers:
        numbers = array(code)
        numbers.frombytes(data[: len(data) - len(data) % numbers.itemsize])
        if sys.byteorder == "big":
            numbers.byteswap()
        return numbers

    return decode


def _listed(code: str) -> Callable[[Any], Numbers]:
    return lambda values: array(code, values)


def _integers(numbers: Numbers) -> list[str]:
    return list(map(str, numbers))


def _small_integers(bits: int, *, is_signed: bool) -> Callable[[Numbers], list[str]]:
    """Integers of less than a byte, each in a byte of its own."""
    half, mask = 1 << (bits - 1), (1 << bits) - 1
    table = [str((n & mask) - mask - 1 if is_signed and n & half else n & mask) for n in range(256)]
    return lambda numbers: [table[number] for number in numbers]


def _bits(numbers: Numbers) -> list[str]:
    return ["1" if number else "0" for number in numbers]


def _floats(code: str, mantissa: int, digits: int, more: int) -> Callable[[Numbers], list[str]]:
    def texts(numbers: Numbers) -> list[str]:
        made = (f"%.{digits}g " * len(numbers) % tuple(numbers)).split()
        again = array(code, map(float, made))
        if again != numbers:
            for at, (found, wanted) in enumerate(zip(again, numbers, strict=True)):
                if wanted != wanted:
                    made[at] = _nan(_raw(numbers[at : at + 1]), again.itemsize * 8, mantissa)
                elif found != wanted:
                    made[at] = f"{wanted:.{more}g}"
        return made

    return texts


def _raw(numbers: Any) -> int:
    """The bits of an array of one number."""
    return int.from_bytes(numbers.tobytes(), sys.byteorder)


def _nan(number: int, bits: int, mantissa: int) -> str:
    """``nan``, with its sign, and with its payload where that is not the usual one."""
    payload = number & ((1 << mantissa) - 1)
    sign = "-" if number >> (bits - 1) else ""
    usual = payload == 1 << (mantissa - 1)
    return f"{sign}nan" if usual else f"{sign}nan(0x{payload:x})"


def _pairs(texts: Callable[[Numbers], list[str]]) -> Callable[[Numbers], list[str]]:
    def pairs(numbers: Numbers) -> list[str]:
        parts = texts(numbers)
        return [f"({a}, {b})" for a, b in zip(parts[::2], parts[1::2], strict=True)]

    return pairs


def _by_table(text: Callable[[int], str]) -> Callable[[Numbers], list[str]]:
    return lambda numbers: list(map(text, numbers))


@lru_cache(maxsize=1 << 16)
def _bf16(number: int) -> str:
    value = struct.unpack("<f", struct.pack("<I", number << 16))[0]
    return _nan(number, 16, 7) if value != value else f"{value:.4g}"


@lru_cache(maxsize=1 << 16)
def _f16(number: int) -> str:
    value = struct.unpack("<e", struct.pack("<H", number))[0]
    return _nan(number, 16, 10) if value != value else f"{value:.5g}"


class _Small(NamedTuple):
    """A float of at most eight bits."""

    exponent: int
    mantissa: int
    bias: int
    special: str
    """``ieee`` has infinities and NaNs, ``top`` one NaN of all ones, ``zero`` one in place of
    minus zero, ``none`` none of them."""
    digits: int
    is_signed: bool = True

    def text(self, number: int) -> str:
        """The number with this many bits."""
        mantissa = number & ((1 << self.mantissa) - 1)
        exponent = (number >> self.mantissa) & ((1 << self.exponent) - 1)
        sign = "-" if self.is_signed and number >> (self.exponent + self.mantissa) & 1 else ""
        ones = (1 << self.exponent) - 1
        if self.special == "zero" and sign and not mantissa and not exponent:
            return "-nan"
        if self.special == "top" and exponent == ones and mantissa == (1 << self.mantissa) - 1:
            return f"{sign}nan"
        if self.special == "ieee" and exponent == ones:
            bits = 1 + self.exponent + self.mantissa
            return _nan(number, bits, self.mantissa) if mantissa else f"{sign}inf"
        part = mantissa / (1 << self.mantissa)
        if exponent or not self.is_signed:
            value = (1 + part) * 2.0 ** (exponent - self.bias)
        else:
            value = part * 2.0 ** (1 - self.bias)
        return f"{sign}{value:.{self.digits}g}"


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
    "f4e2m1fn": _Small(2, 1, 1, "none", 2),
}
_F32 = _floats("f", 23, 6, 9)
_F64 = _floats("d", 52, 15, 17)
_BY_NAME = {
    "pred": ElementType("preds", bytes, _bits),
    "s8": ElementType("s8s", _stored("b"), _integers),
    "u8": ElementType("u8s", bytes, _integers),
    "s16": ElementType("s16s", _stored("h"), _integers),
    "u16": ElementType("u16s", _stored("H"), _integers),
    "s32": ElementType("s32s", _listed("i"), _integers),
    "s64": ElementType("s64s", _listed("q"), _integers),
    "u32": ElementType("u32s", _listed("I"), _integers),
    "u64": ElementType("u64s", _listed("Q"), _integers),
    "f16": ElementType("f16s", _stored("H"), _by_table(_f16)),
    "bf16": ElementType("bf16s", _stored("H"), _by_table(_bf16)),
    "f32": ElementType("f32s", _stored("f"), _F32),
    "f64": ElementType("f64s", _stored("d"), _F64),
    "c64": ElementType("c64s", _stored("f"), _pairs(_F32), 2),
    "c128": ElementType("c128s", _stored("d"), _pairs(_F64), 2),
    **{
        f"{sign}{bits}": ElementType(
            f"{sign}{bits}s", bytes, _small_integers(bits, is_signed=sign == "s")
        )
        for sign in "su"
        for bits in (1, 2, 4)
    },
    **{
        name: ElementType(f"{name}s", bytes, _by_table(lru_cache(maxsize=256)(small.text)))
        for name, small in _SMALL.items()
    },
}
TYPES = {number: _BY_NAME[name] for number, name in ELEMENT_TYPES.items() if name in _BY_NAME}
"""Types that literals can have, by their number in ``PrimitiveType``."""
