"""Which values of a piece of graph vanish where some of what it takes in is zero.

A derivative is linear in the gradient that comes in from behind, and in nothing else (Griewank and
Walther 2008, section 3.2): where that is zero, it is.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from xlagraph.facts.values.scalars import unspread

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable

    from xlagraph.graph import Module

ANY = frozenset({"multiply", "dot", "convolution", "and"})
"""Zero where one operand is."""
FIRST = frozenset({"divide", "gather", "dynamic-slice"})
"""Zero where the first operand is."""
ALL = frozenset(
    {
        "add", "subtract", "maximum", "minimum", "concatenate", "tuple", "pad", "opt-barrier",
        "broadcast", "reshape", "convert", "copy", "bitcast", "transpose", "slice", "reverse",
        "reduce-precision", "negate", "get-tuple-element", "all-reduce", "all-gather",
        "reduce-scatter",
    }
)  # fmt: skip
"""Zero where all operands are."""
SUMS = frozenset({"reduce", "reduce-window"})
"""Zero where all operands are, if what they apply adds."""
MAX_DEPTH = 8
"""Calls in calls that are looked into."""


def vanishing(module: Module, piece: Iterable[int], zeros: Collection[int]) -> set[int]:
    """The instructions of the piece that are zero where all of `zeros` are."""
    return _vanishing(module, sorted(piece), set(zeros), 0) - set(zeros)


def _vanishing(module: Module, piece: Iterable[int], found: set[int], depth: int) -> set[int]:
    for i in piece:
        if _is_zero(module, i, found, depth):
            found.add(i)
    return found


def _is_zero(module: Module, i: int, found: set[int], depth: int) -> bool:
    opcode, operands = module.opcodes[i], module.operands[i]
    zero = [o in found or is_zero(module, o) for o in operands]
    match opcode:
        case "select":
            return zero[1] and zero[2]
        case "scatter" | "select-and-scatter":
            return zero[0 if opcode == "scatter" else 1] and zero[2] and _keeps_zero(module, i)
        case "dynamic-update-slice":
            return zero[0] and zero[1]
        case "batch-norm-grad":
            return zero[4]
        case "call":
            return depth < MAX_DEPTH and _is_zero_inside(module, i, zero, depth)
    if opcode in ANY:
        return any(zero)
    if opcode in FIRST:
        return zero[0]
    return (
        bool(zero) and all(zero) and (opcode in ALL or (opcode in SUMS and _keeps_zero(module, i)))
    )


def _keeps_zero(module: Module, i: int) -> bool:
    """Whether what an instruction applies last adds two numbers, or picks one of them."""
    applied = module.computations[module.callees[i][-1]]
    return module.opcodes[applied.root] in ("add", "parameter")


def _is_zero_inside(module: Module, call: int, zero: list[bool], depth: int) -> bool:
    body = module.computations[module.callees[call][0]]
    given = {p for p, is_given in zip(body.parameters, zero, strict=True) if is_given}
    return body.root in _vanishing(module, range(body.start, body.stop), given, depth + 1)


def is_zero(module: Module, value: int) -> bool:
    """Whether a value is a constant 0, spread or converted."""
    value = unspread(module, value)
    return module.opcodes[value] == "constant" and module.payloads[value] in ("0", "-0", "false")
