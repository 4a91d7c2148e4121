"""Shapes that a text leaves out, where they follow from the operands alone."""

from __future__ import annotations

from typing import TYPE_CHECKING

from xlagraph.errors import InputError
from xlagraph.hlo.shapes import Shape, read_shape

if TYPE_CHECKING:
    from collections.abc import Sequence

_LIKE_FIRST = frozenset(
    [
        "abs",
        "add",
        "and",
        "atan2",
        "cbrt",
        "ceil",
        "copy",
        "cosine",
        "divide",
        "exponential",
        "exponential-minus-one",
        "floor",
        "log",
        "log-plus-one",
        "logistic",
        "maximum",
        "minimum",
        "multiply",
        "negate",
        "not",
        "or",
        "popcnt",
        "power",
        "remainder",
        "round-nearest-afz",
        "round-nearest-even",
        "rsqrt",
        "shift-left",
        "shift-right-arithmetic",
        "shift-right-logical",
        "sign",
        "sine",
        "sqrt",
        "subtract",
        "tan",
        "tanh",
        "xor",
        "optimization-barrier",
    ]
)
MAX_TUPLE_TEXT = 1000
"""Characters up to which a tuple's shape is put together; nested ones double each time."""
_PREDICATES = frozenset({"compare", "is-finite"})


def infer_shape(opcode: str, operands: Sequence[str]) -> str:
    """The result shape of an opcode, or ``""`` where it needs more than the operands.

    `operands` are shape texts, maybe ``""``.
    """
    if opcode == "tuple":
        small = all(operands) and sum(map(len, operands)) < MAX_TUPLE_TEXT
        return f"({', '.join(operands)})" if small else ""
    if not operands or not operands[0]:
        return ""
    if opcode in _LIKE_FIRST:
        return operands[0]
    if opcode in ("select", "clamp") and len(operands) > 1:
        return operands[1]
    if opcode in _PREDICATES:
        first = read_shape(operands[0])
        return str(Shape("pred", first.dimensions, first.dynamic, first.layout, first.parts))
    return ""


def tuple_part(shape: str, index: int) -> str:
    """The shape of a tuple's part, or ``""`` where there is none."""
    try:
        parts = read_shape(shape).parts
    except InputError:
        return ""
    return str(parts[index]) if index < len(parts) else ""
