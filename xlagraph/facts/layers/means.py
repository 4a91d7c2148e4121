"""Means that are one number: over all values, or over those that a mask keeps."""

from __future__ import annotations

from typing import TYPE_CHECKING

from xlagraph.canon.labels import bare_shape
from xlagraph.facts.layers.layer import Layer, reduces_by
from xlagraph.facts.values.scalars import SPREADS, is_number, number_of, through

if TYPE_CHECKING:
    from xlagraph.graph import Module

FLOATS = frozenset({"f16[]", "bf16[]", "f32[]", "f64[]"})
MEAN, MASKED = "mean", "masked mean"
_GUARDS = SPREADS | {"clamp", "maximum", "add", "select"}


def means(module: Module) -> list[Layer]:
    """The means of a module that are one number each."""
    entry = module.entry_computation
    numbers = (
        i
        for i in range(entry.start, entry.stop)
        if module.opcodes[i] in ("divide", "multiply") and bare_shape(module, i) in FLOATS
    )
    return [layer for i in numbers if (layer := _mean(module, i))]


def _mean(module: Module, i: int) -> Layer | None:
    total, over = module.operands[i]
    total = through(module, total, SPREADS | {"negate"})
    if module.opcodes[total] != "reduce" or not reduces_by(module, total, "add"):
        return None
    mask = _counted(module, over) if module.opcodes[i] == "divide" else None
    if mask is not None:
        value = through(module, module.operands[total][0], SPREADS | {"negate"})
        kept = {through(module, o, SPREADS) for o in module.operands[value]}
        is_kept = module.opcodes[value] in ("multiply", "select") and mask in kept
        return (
            Layer(MASKED, frozenset({i, total, value, *_guards(module, over)})) if is_kept else None
        )
    is_plain = number_of(module, over) is not None or _is_fixed(module, over)
    return Layer(MEAN, frozenset({i, total})) if is_plain else None


def _guards(module: Module, over: int) -> set[int]:
    """The count that a sum is divided by, and what keeps it from zero."""
    found, stack = {over}, [over]
    while stack:
        i = stack.pop()
        below = {o for o in module.operands[i] if module.opcodes[i] in _GUARDS} - found
        found |= below
        stack += sorted(below)
    return found


def _counted(module: Module, over: int) -> int | None:
    """The condition whose places a divisor counts."""
    for i in sorted(_guards(module, over)):
        if module.opcodes[i] == "reduce" and reduces_by(module, i, "add"):
            mask = through(module, module.operands[i][0], SPREADS)
            if module.shapes[mask].startswith("pred[") and not is_number(module, mask):
                return mask
    return None


def _is_fixed(module: Module, value: int) -> bool:
    """Whether a number is made of constants alone, as torch_xla makes one over a count."""
    stack = [value]
    for i in stack:  # grows while it is read
        if module.opcodes[i] in ("parameter", "reduce") or len(stack) > len(SPREADS) ** 2:
            return False
        stack += module.operands[i]
    return True
