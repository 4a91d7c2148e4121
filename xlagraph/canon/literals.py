"""One spelling for each literal: numbers as the element type holds them.

Single precision is rounded as XLA's parser does (to double, then to single); other types than
``f32``, ``f64`` and integers keep the double that is printed, so that equal texts here are equal
values there.
"""

from __future__ import annotations

import re
from array import array
from typing import TYPE_CHECKING

from xlagraph.canon.spelling import Memo, one_spelling
from xlagraph.errors import InputError
from xlagraph.hlo.literals import ELIDED, split_tuple
from xlagraph.hlo.scan import MalformedError
from xlagraph.hlo.shapes import read_shape

if TYPE_CHECKING:
    from collections.abc import Sequence

    from xlagraph.hlo.shapes import Shape

FEW = 64
"""Values up to which single precision is written as short as it can be."""
_COMMENT = re.compile(r"/\*.*?\*/|//[^\n]*", re.S)
_SEPARATORS = str.maketrans("{},", "   ")
_COMPLEX = re.compile(r"\(([^(),]*(?:\([^()]*\))?),([^(),]*(?:\([^()]*\))?)\)")
_INTEGERS = re.compile(r"[su]\d+")
_ODD = re.compile(r"-0+|.*nan.*", re.S)
"""Numbers that keep their text: XLA's parser takes ``-0`` for an integer, which has no sign; a
NaN may have one, and a payload."""
_LITERALS = Memo()


def canonical_literal(shape: str, text: str) -> str:
    """What stands between the parentheses of a constant, in one spelling.

    Linear in the text; each text is read once, as long as they are not too many.
    """
    known = _LITERALS.get((shape, text))
    if known is None:
        try:
            known = _literal(read_shape(shape), text)
        except (InputError, MalformedError, ValueError):
            known = one_spelling(text)
        _LITERALS.keep((shape, text), known)
    return known


def _literal(shape: Shape, text: str) -> str:
    if "/" in text:
        text = _COMMENT.sub(" ", text)
    if ELIDED in text:
        return one_spelling(text)
    if shape.is_tuple:
        pieces = split_tuple(text)
        parts = zip(shape.parts, pieces, strict=True)
        return "(" + ", ".join(_literal(part, text[i:k]) for part, (i, k) in parts) + ")"
    values = _values(shape, text)
    if len(values) != shape.elements:
        # A number alone is the first value of an array: XLA's parser lets the others be zeros.
        return f"{values[0]}, 0..." if len(values) == 1 else one_spelling(text)
    return _nested(values, shape.dimensions)


def _nested(values: Sequence[str], dimensions: Sequence[int]) -> str:
    """Values in braces, as XLA prints an array of these dimensions, on one line."""
    rows = list(values)
    for size in reversed(dimensions):
        if not size:
            return "{}"
        rows = ["{" + ", ".join(rows[k : k + size]) + "}" for k in range(0, len(rows), size)]
    return rows[0] if rows else "{}"


def _values(shape: Shape, text: str) -> list[str]:
    kind = shape.element_type
    if kind in ("c64", "c128"):
        part = "f32" if kind == "c64" else "f64"
        pairs = [[a.strip(), b.strip()] for a, b in _COMPLEX.findall(text)]
        return [f"({', '.join(_numbers(part, pair))})" for pair in pairs]
    return _numbers(kind, text.translate(_SEPARATORS).split(), is_scalar=not shape.dimensions)


def _numbers(kind: str, words: Sequence[str], *, is_scalar: bool = True) -> list[str]:
    """Each number in one spelling.

    Raises:
        ValueError: a word is no number.
    """
    if kind == "pred":
        false, true = ("false", "true") if is_scalar else ("0", "1")
        return [false if word == "false" or word.strip("-0") == "" else true for word in words]
    if _INTEGERS.fullmatch(kind):
        return list(map(str, map(int, words)))
    odd = [word for word in words if _ODD.fullmatch(word)]
    if odd:
        return [word if word in odd else _numbers(kind, [word])[0] for word in words]
    numbers = list(map(float, words))
    if kind != "f32":
        return [_signed(repr(number).removesuffix(".0")) for number in numbers]
    if len(numbers) <= FEW:
        return list(map(single, numbers))
    return [_signed(f"{number:.9g}") for number in _rounded(numbers)]


def single(number: float) -> str:
    """The shortest text that single precision reads as this number."""
    (rounded,) = _rounded([number])
    for digits in range(6, 9):
        text = f"{rounded:.{digits}g}"
        if _rounded([float(text)])[0] == rounded:
            return _signed(text)
    return f"{rounded:.9g}"


def _rounded(numbers: Sequence[float]) -> Sequence[float]:
    """In single precision; what is too large for it is infinite."""
    return array("f", numbers)


def _signed(text: str) -> str:
    return "-0.0" if text == "-0" else text
