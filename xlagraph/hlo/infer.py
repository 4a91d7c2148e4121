"""Shapes that a text leaves out, where they follow from the operands alone."""

from __future__ import annotations

import re
import sys
from dataclasses import replace
from typing import TYPE_CHECKING

from xlagraph.errors import InputError
from xlagraph.hlo.shapes import Shape, read_shape

if TYPE_CHECKING:
    from collections.abc import Sequence

    from xlagraph.graph import Attributes

_LIKE_FIRST = frozenset(
    [
        "abs",
        "acos",
        "acosh",
        "add",
        "add-dependency",
        "and",
        "asin",
        "asinh",
        "atan2",
        "atanh",
        "batch-norm-inference",
        "cbrt",
        "ceil",
        "cholesky",
        "copy",
        "cosh",
        "cosine",
        "count-leading-zeros",
        "divide",
        "domain",
        "erf",
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
        "opt-barrier",
        "optimization-barrier",
        "or",
        "popcnt",
        "power",
        "remainder",
        "reverse",
        "round-nearest-afz",
        "round-nearest-even",
        "rsqrt",
        "select-and-scatter",
        "set-dimension-size",
        "shift-left",
        "shift-right-arithmetic",
        "shift-right-logical",
        "sign",
        "sine",
        "sinh",
        "sqrt",
        "subtract",
        "tan",
        "tanh",
        "while",
        "xor",
    ]
)
_LIKE_SECOND = frozenset({"clamp", "select", "triangular-solve"})
_LIKE_CALLEE = frozenset({"call", "conditional"})
_FIXED = {
    "after-all": "token[]",
    "get-dimension-size": "s32[]",
    "partition-id": "u32[]",
    "replica-id": "u32[]",
}
_PARTS = {"c64": "f32", "c128": "f64"}
_OTHER_TYPE = {
    "compare": {"": "pred"},
    "is-finite": {"": "pred"},
    "complex": {"f32": "c64", "f64": "c128"},
    "real": _PARTS,
    "imag": _PARTS,
}
"""Opcodes whose result is like the first operand, of the element type that belongs to its own."""
_DIGITS = re.compile(r"\d{1,9}(?!\d)")
MAX_TUPLE_TEXT = 1000
"""Characters up to which a tuple's shape is put together; nested ones double each time."""


def infer_shape(
    opcode: str, operands: Sequence[str], attributes: Attributes, roots: Sequence[str] = ()
) -> str:
    """The result shape of an opcode, or ``""`` where it is not known here how it follows.

    Args:
        opcode: The opcode as printed.
        operands: Shape texts, maybe ``""``.
        attributes: Of the instruction.
        roots: The result shapes of the computations that it calls, as far as they are known.
    """
    if opcode in _FIXED:
        return _FIXED[opcode]
    if opcode == "tuple":
        small = all(operands) and sum(map(len, operands)) < MAX_TUPLE_TEXT
        return f"({', '.join(operands)})" if small else ""
    if opcode in _LIKE_CALLEE:
        return roots[0] if roots else ""
    if not operands or not operands[0]:
        return ""
    if opcode in _LIKE_FIRST or (opcode == "sort" and len(operands) == 1):
        return operands[0]
    if opcode in _LIKE_SECOND and len(operands) > 1:
        return operands[1]
    if opcode == "get-tuple-element":
        return tuple_part(operands[0], _number(attributes.get("index")))
    first = read_shape(operands[0])
    if opcode in _OTHER_TYPE:
        kind = _OTHER_TYPE[opcode].get(first.element_type, _OTHER_TYPE[opcode].get("", ""))
        return str(replace(first, element_type=kind)) if kind else ""
    if opcode == "transpose":
        return _transposed(first, attributes.get("dimensions") or "")
    return ""


def _transposed(shape: Shape, dimensions: str) -> str:
    """The shape with its dimensions in another order, over the same order in memory."""
    order = [int(digits) for digits in _DIGITS.findall(dimensions)]
    rank = len(shape.dimensions)
    if sorted(order) != list(range(rank)) or ":" in shape.layout:
        return ""
    memory = [int(digits) for digits in _DIGITS.findall(shape.layout)] or range(rank)[::-1]
    layout = ",".join(str(order.index(dimension)) for dimension in memory)
    sizes = tuple(shape.dimensions[k] for k in order)
    dynamic = tuple(shape.dynamic[k] for k in order)
    return str(Shape(shape.element_type, sizes, dynamic, f"{{{layout}}}" if rank else ""))


def _number(text: str | None) -> int:
    return int(text) if text and _DIGITS.fullmatch(text) else sys.maxsize


def tuple_part(shape: str, index: int) -> str:
    """The shape of a tuple's part, or ``""`` where there is none."""
    try:
        parts = read_shape(shape).parts
    except InputError:
        return ""
    return str(parts[index]) if index < len(parts) else ""
