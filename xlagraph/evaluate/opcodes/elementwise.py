"""Instructions that make each element from the same element of their operands.

The semantics are those of XLA's operation semantics (openxla/xla, ``docs/operation_semantics.md``)
and, where that says nothing, of ``HloEvaluator``.
"""

from __future__ import annotations

import math
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from xlagraph.evaluate.numbers import bitcast_convert, convert, in_range, reduce_precision
from xlagraph.evaluate.step import is_float

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from xlagraph.evaluate.step import Array, Calls, Step

_ERF = np.frompyfunc(math.erf, 1, 1)


def _erf(x: Array) -> Array:
    return np.asarray(_ERF(x), np.float64)


def _logistic(x: Array) -> Array:
    return np.asarray(1.0 / (1.0 + np.exp(-x)))


def _round_away(x: Array) -> Array:
    """To the nearest whole number; halves away from 0."""
    near = np.trunc(x)
    return np.asarray(near + np.where(np.abs(x - near) >= 0.5, np.sign(x), 0.0))


def _not(x: Array) -> Array:
    return np.asarray(np.invert(x))


def _abs(x: Array) -> Array:
    return np.asarray(np.abs(x))


def _sign(x: Array) -> Array:
    if x.dtype.kind == "c":
        size = np.abs(x)
        return np.asarray(np.where(size == 0, x, x / np.where(size == 0, 1.0, size)))
    return np.asarray(np.sign(x))


def _bits_set(x: Array) -> Array:
    unsigned = np.ascontiguousarray(x).reshape((*x.shape, 1)).view(np.uint8)
    return np.asarray(np.unpackbits(unsigned, axis=-1).sum(axis=-1), x.dtype)


def _leading_zeros(x: Array) -> Array:
    width = 8 * x.dtype.itemsize
    unsigned = x.astype(f"u{x.dtype.itemsize}")
    left = np.full(x.shape, width, x.dtype)
    for bit in range(width):
        left = np.where(unsigned >> unsigned.dtype.type(bit) != 0, width - 1 - bit, left)
    return left.astype(x.dtype)


def _divide(x: Array, y: Array) -> Array:
    """Integers are cut towards 0; by 0 all bits are set."""
    if x.dtype.kind not in "iu":
        return np.asarray(np.divide(x, y))
    safe = np.where(y == 0, y.dtype.type(1), y)
    quotient = x // safe
    if x.dtype.kind == "i":
        least = np.iinfo(x.dtype).min
        is_least = (x == least) & (y == -1)
        safe = np.where(is_least, x.dtype.type(1), safe)
        quotient = x // safe
        left = x - quotient * safe
        quotient = quotient + ((left != 0) & ((x < 0) != (safe < 0))).astype(x.dtype)
    return np.asarray(np.where(y == 0, ~x.dtype.type(0), quotient), x.dtype)


def _remainder(x: Array, y: Array) -> Array:
    """It has the sign of what is divided; by 0 all is left."""
    if x.dtype.kind not in "iu":
        return np.asarray(np.fmod(x, y))
    whole = (y == 0) | (y == (x.dtype.type(0) - 1 if x.dtype.kind == "i" else 0))
    safe = np.where(whole, y.dtype.type(1), y)
    left = np.fmod(x, safe)
    return np.asarray(np.where(y == 0, x, np.where(whole, x.dtype.type(0), left)), x.dtype)


def _shift(of: Callable[[Array, Array], Array], *, signed: bool, x: Array, y: Array) -> Array:
    """Shifts by the width and more leave 0, or the sign."""
    width = 8 * x.dtype.itemsize
    unsigned = np.dtype(f"u{x.dtype.itemsize}")
    by, bits = y.astype(unsigned), x if signed else x.astype(unsigned)
    is_past = by >= width
    amount = np.where(is_past, width - 1, by).astype(bits.dtype)
    shifted = of(bits, amount)
    past = of(bits, bits.dtype.type(width - 1)) if signed else np.zeros_like(shifted)
    return np.asarray(np.where(is_past, past, shifted)).astype(x.dtype)


def _power(x: Array, y: Array) -> Array:
    return np.asarray(np.power(x, y))


def _clamp(low: Array, x: Array, high: Array) -> Array:
    return np.asarray(np.minimum(np.maximum(x, low), high))


def _select(which: Array, x: Array, y: Array) -> Array:
    return np.asarray(np.where(which, x, y))


def in_total_order(x: Array) -> Array:
    """Numbers for floats, in the order -NaN < -inf < ... < -0 < 0 < ... < inf < NaN."""
    bits = np.ascontiguousarray(x, np.float64).view(np.int64).reshape(x.shape)
    return np.asarray(bits ^ ((bits >> np.int64(63)) & np.int64(np.iinfo(np.int64).max)))


_DIRECTIONS: dict[str, Callable[[Any, Any], Any]] = {
    "EQ": np.equal,
    "NE": np.not_equal,
    "LT": np.less,
    "LE": np.less_equal,
    "GT": np.greater,
    "GE": np.greater_equal,
}


def _compare(step: Step, x: Array, y: Array) -> Array:
    if step.text("type") == "TOTALORDER" and x.dtype.kind == "f":
        x, y = in_total_order(x), in_total_order(y)
    of = _DIRECTIONS.get(step.text("direction"))
    if of is None:
        raise step.not_evaluated("it has no direction")
    return np.asarray(of(x, y))


def _complex(x: Array, y: Array) -> Array:
    return np.asarray(x + 1j * y)


def _rsqrt(x: Array) -> Array:
    return np.asarray(1.0 / np.sqrt(x))


_left = partial(_shift, np.left_shift, signed=False)
_right = partial(_shift, np.right_shift, signed=False)
_right_signed = partial(_shift, np.right_shift, signed=True)

FUNCTIONS: dict[str, Callable[..., Any]] = {
    "abs": _abs,
    "add": np.add,
    "and": np.bitwise_and,
    "atan2": np.arctan2,
    "cbrt": np.cbrt,
    "ceil": np.ceil,
    "clamp": _clamp,
    "complex": _complex,
    "cosine": np.cos,
    "count-leading-zeros": _leading_zeros,
    "divide": _divide,
    "erf": _erf,
    "exponential": np.exp,
    "exponential-minus-one": np.expm1,
    "floor": np.floor,
    "imag": np.imag,
    "is-finite": np.isfinite,
    "log": np.log,
    "log-plus-one": np.log1p,
    "logistic": _logistic,
    "maximum": np.maximum,
    "minimum": np.minimum,
    "multiply": np.multiply,
    "negate": np.negative,
    "not": _not,
    "or": np.bitwise_or,
    "popcnt": _bits_set,
    "power": _power,
    "real": np.real,
    "remainder": _remainder,
    "round-nearest-afz": _round_away,
    "round-nearest-even": np.rint,
    "rsqrt": _rsqrt,
    "select": _select,
    "shift-left": lambda x, y: _left(x=x, y=y),
    "shift-right-arithmetic": lambda x, y: _right_signed(x=x, y=y),
    "shift-right-logical": lambda x, y: _right(x=x, y=y),
    "sign": _sign,
    "sine": np.sin,
    "sqrt": np.sqrt,
    "subtract": np.subtract,
    "tan": np.tan,
    "tanh": np.tanh,
    "xor": np.bitwise_xor,
}
STEPS: dict[str, Callable[..., Array]] = {
    "bitcast-convert": bitcast_convert,
    "compare": _compare,
    "convert": convert,
    "reduce-precision": reduce_precision,
}
_BOOLEAN = {"add": np.logical_or, "multiply": np.logical_and}
"""What arithmetic of truth values is."""
LEAVES_RANGE = frozenset(
    (
        *("add", "subtract", "multiply", "divide", "power", "exponential", "exponential-minus-one"),
        *("rsqrt", "logistic", "tan", "abs"),
    )
)


def elementwise(step: Step, operands: Sequence[Any], _: Calls) -> Array:
    """Evaluates an instruction of `FUNCTIONS` or `STEPS`; of arrays where it is of scalars, too."""
    opcode = step.opcode
    if opcode in STEPS:
        return STEPS[opcode](step, *operands)
    of = FUNCTIONS[opcode]
    if operands[0].dtype.kind == "b" and opcode in _BOOLEAN:
        of = _BOOLEAN[opcode]
    made = np.asarray(of(*operands))
    if opcode in LEAVES_RANGE and is_float(step.kind):
        return in_range(made, step.kind)
    return made
