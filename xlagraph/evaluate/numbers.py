"""Element types: literals, conversions, and the ranges of what is computed.

Floats are computed in double precision, and rounded where a program converts to a narrower type.
"""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from xlagraph.evaluate.errors import NotEvaluatedError
from xlagraph.evaluate.step import is_float, type_of
from xlagraph.hlo.literals import ELIDED, split_tuple
from xlagraph.patterns import re

if TYPE_CHECKING:
    from collections.abc import Callable

    from xlagraph.evaluate.step import Array, Step
    from xlagraph.hlo.shapes import Shape

_COMMENT = re.compile(r"/\*.*?\*/|//[^\n]*+", re.S)
_COMPLEX = re.compile(r"\(([^(),]*+),([^(),]*+)\)")
_NAN = re.compile(r"nan\([^()]*\)")
_SEPARATORS = str.maketrans("{},", "   ")


class Format(NamedTuple):
    """A floating type: digits behind the point, least exponent, largest value, and beyond it."""

    digits: int
    least: int
    largest: float
    beyond: float = np.inf


FORMATS = {
    "f64": Format(52, -1022, float(np.finfo(np.float64).max)),
    "f32": Format(23, -126, float(np.finfo(np.float32).max)),
    "bf16": Format(7, -126, float.fromhex("0x1.fep127")),
    "f16": Format(10, -14, 65504.0),
    "f8e5m2": Format(2, -14, 57344.0),
    "f8e4m3fn": Format(3, -6, 448.0, np.nan),
}


def jittered(array: Any, chance: np.random.Generator, most: float) -> Any:
    """The array as if its numbers were rounded otherwise; whole numbers and tuples as they are.

    `most`: how far each is moved at most, relative to its size.
    """
    if not (isinstance(array, np.ndarray | float) and np.asarray(array).dtype.kind == "f"):
        return array
    return array * (1.0 + most * chance.uniform(-1.0, 1.0, np.shape(array)))


def rounded(x: Array, kind: str) -> Array:
    """Floats rounded to the nearest even value of a type; subnormal ones are kept."""
    if kind == "f64":
        return x
    if kind == "f32":
        return x.astype(np.float32).astype(np.float64)
    digits, least, largest, beyond = FORMATS[kind]
    _, exponent = np.frexp(x)
    unit = np.ldexp(1.0, np.maximum(exponent - 1, least) - digits)
    near = np.rint(x / unit) * unit
    near = np.where(np.isfinite(x), near, x)
    past = np.abs(near) > largest
    return np.where(past, np.copysign(beyond, x), near) if past.any() else near


def in_range(x: Array, kind: str) -> Array:
    """Results as far as their type reaches: what is larger is infinite, what is smaller 0.

    So far apart are a stable form and one that overflows.
    """
    digits, least, largest, _ = FORMATS[kind]
    size = np.abs(x)
    past = size > largest
    if past.any():
        x = np.where(past, np.copysign(np.inf, x), x)
    gone = size < np.ldexp(1.0, least - digits - 1)
    return np.where(gone, x * 0.0, x) if gone.any() else x


def to_integers(x: Array, dtype: np.dtype[Any]) -> Array:
    """Floats as integers, as XLA converts them: cut, at most the ends of the type, NaN is 0."""
    ends = np.iinfo(dtype)
    whole = np.trunc(np.where(np.isnan(x), 0.0, x))
    is_low, is_high = whole <= float(ends.min), whole >= float(ends.max)
    inner = np.where(is_low | is_high, 0.0, whole).astype(dtype)
    ended = np.where(is_high, dtype.type(ends.max), inner)
    return np.asarray(np.where(is_low, dtype.type(ends.min), ended), dtype)


def convert(step: Step, x: Array) -> Array:
    """``Convert``: rounds to nearest even, cuts to integers, and asks whether it is 0."""
    source, kind, dtype = step.operand_shape(0).element_type, step.kind, step.dtype
    if source == kind:
        return x
    if kind == "pred":
        return np.asarray(x != 0)
    if x.dtype.kind == "c" and dtype.kind != "c":
        x = x.real
    if is_float(kind):
        wider = is_float(source) and FORMATS[source].digits <= FORMATS[kind].digits
        reaches = is_float(source) and FORMATS[source].largest <= FORMATS[kind].largest
        floats = np.asarray(x, np.float64)
        return floats if wider and reaches else rounded(floats, kind)
    if dtype.kind in "iu" and x.dtype.kind == "f":
        return to_integers(x, dtype)
    return x.astype(dtype)


_STORED: dict[str, type[np.generic]] = {"f64": np.float64, "f32": np.float32, "f16": np.float16}


def _bits(x: Array, kind: str) -> Array:
    """Values as they are stored."""
    if kind == "bf16":
        wide = rounded(x, kind).astype(np.float32).view(np.uint32)
        return np.asarray(wide >> np.uint32(16)).astype(np.uint16)
    if is_float(kind) and kind not in _STORED:
        raise NotEvaluatedError(f"bitcast-convert: the bits of {kind} are not known")
    return np.ascontiguousarray(x, _STORED[kind] if kind in _STORED else type_of(kind))


def _from_bits(x: Array, kind: str) -> Array:
    if kind == "bf16":
        wide = x.view(np.uint16).astype(np.uint32) << np.uint32(16)
        return np.asarray(wide).view(np.float32).astype(np.float64)
    if is_float(kind) and kind not in _STORED:
        raise NotEvaluatedError(f"bitcast-convert: the bits of {kind} are not known")
    stored = _STORED[kind] if kind in _STORED else type_of(kind)
    return x.view(stored).astype(type_of(kind))


def bitcast_convert(step: Step, x: Array) -> Array:
    """``BitcastConvertType``: the same bits; the least come first where an element is divided."""
    source, kind = step.operand_shape(0).element_type, step.kind
    if "pred" in (source, kind) or "c" in (source[0], kind[0]):
        raise step.not_evaluated(f"from {source} to {kind}")
    bits = _bits(x, source)
    old, new = (
        bits.dtype.itemsize,
        np.dtype(_STORED.get(kind, np.uint16 if kind == "bf16" else type_of(kind))).itemsize,
    )
    if old > new:
        bits = bits.reshape((*bits.shape, 1))
    elif bits.ndim == 0:
        bits = bits.reshape((1,))
    made = _from_bits(np.ascontiguousarray(bits), kind)
    return made.reshape(step.dimensions)


def reduce_precision(step: Step, x: Array) -> Array:
    """``ReducePrecision``: rounds to fewer digits, and to a smaller range of exponents."""
    exponent, digits = step.integer("exponent_bits", 8), step.integer("mantissa_bits", 23)
    known = {(8, 7): "bf16", (8, 23): "f32", (5, 10): "f16", (11, 52): "f64"}
    kind = known.get((exponent, digits))
    if kind is None:
        raise step.not_evaluated(f"with {exponent} and {digits} bits")
    return rounded(x, kind)


def literal(shape: Shape, text: str) -> Any:
    """The value of a constant.

    Raises:
        NotEvaluatedError: its values are not printed, or are no numbers.
    """
    if ELIDED in text:
        raise NotEvaluatedError("constant: its values are elided")
    text = _COMMENT.sub(" ", text) if "/" in text else text
    if shape.is_tuple:
        pieces = split_tuple(text)
        return tuple(
            literal(part, text[i:k]) for part, (i, k) in zip(shape.parts, pieces, strict=True)
        )
    dtype = type_of(shape.element_type)
    values = _values(shape.element_type, dtype, text)
    count = prod(shape.dimensions)
    if len(values) == 1 and count > 1:  # XLA's parser lets the others be zeros
        values = np.concatenate([values, np.zeros(count - 1, dtype)])
    return values.reshape(shape.dimensions)


def _values(kind: str, dtype: np.dtype[Any], text: str) -> Array:
    if dtype.kind == "c":
        pairs = [complex(_number(a), _number(b)) for a, b in _COMPLEX.findall(text)]
        return np.array(pairs, dtype)
    words = text.translate(_SEPARATORS).split()
    if kind == "pred":
        return np.array([word == "true" or word.strip("-0") not in ("", "false") for word in words])
    if dtype.kind == "f":
        numbers = [_number(word) for word in words] if "nan(" in text else list(map(float, words))
        return rounded(np.array(numbers, np.float64), kind)
    to_number: Callable[[str], int] = int
    return np.array(list(map(to_number, words)), dtype)


def _number(word: str) -> float:
    return float(_NAN.sub("nan", word.strip()))
