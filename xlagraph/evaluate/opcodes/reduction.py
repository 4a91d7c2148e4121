"""``reduce``, ``reduce-window`` and ``select-and-scatter``: what combines elements two by two."""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np

from xlagraph.evaluate.numbers import in_range
from xlagraph.evaluate.step import is_float
from xlagraph.evaluate.window import padded, read_window

if TYPE_CHECKING:
    from collections.abc import Sequence

    from xlagraph.evaluate.step import Array, Calls, Step
    from xlagraph.graph import Module

_UFUNCS: dict[str, Any] = {
    "add": np.add,
    "and": np.bitwise_and,
    "maximum": np.maximum,
    "minimum": np.minimum,
    "multiply": np.multiply,
    "or": np.bitwise_or,
    "xor": np.bitwise_xor,
}


def combiner(module: Module, computation: int) -> str:
    """The opcode of a computation that combines its two parameters by one; ``""`` of others."""
    called = module.computations[computation]
    opcode = module.opcodes[called.root]
    is_plain = len(called.parameters) == 2 and opcode in _UFUNCS
    return opcode if is_plain and {*module.operands[called.root]} == {*called.parameters} else ""


def ufunc(opcode: str, x: Array) -> Any:
    """The numpy function that combines by an opcode; None if it has none for this type."""
    if x.dtype.kind == "b":
        return {"add": np.logical_or, "multiply": np.logical_and}.get(opcode, _UFUNCS.get(opcode))
    return _UFUNCS.get(opcode)


def as_tuple(value: Any) -> tuple[Any, ...]:
    """The results of a computation that gives one or several."""
    return value if isinstance(value, tuple) else (value,)


def _given(step: Step, made: Sequence[Array]) -> Any:
    """Results as the instruction's shape has them: one array, or a tuple of them."""
    return tuple(made) if step.shape.is_tuple else made[0]


def reduce(step: Step, operands: Sequence[Any], calls: Calls) -> Any:
    """``Reduce``, of one array or of several at once; neighbours first, so that order is kept."""
    count = len(operands) // 2
    arrays, starts = operands[:count], operands[count:]
    axes = sorted({*step.integers("dimensions")})
    rank = arrays[0].ndim
    if any(x.shape != arrays[0].shape for x in arrays) or [k for k in axes if k >= rank]:
        raise step.not_evaluated("its dimensions do not fit its operands")
    kept = [k for k in range(rank) if k not in axes]
    sizes = [arrays[0].shape[k] for k in kept]
    computation = step.callee("to_apply")
    of = ufunc(combiner(step.module, computation), arrays[0]) if count == 1 else None
    if of is not None:
        made = np.asarray(of(of.reduce(arrays[0], axis=tuple(axes)), starts[0]))
        return _given(step, [_typed(step, made)])
    flat = [
        x.transpose([*axes, *kept]).reshape([prod(x.shape[k] for k in axes), *sizes])
        for x in arrays
    ]
    firsts = [np.broadcast_to(start, sizes) for start in starts]
    return _given(step, _halved(flat, firsts, computation, calls))


def _typed(step: Step, x: Array) -> Array:
    return in_range(x, step.kind) if is_float(step.kind) else x.astype(step.dtype, copy=False)


def _halved(
    flat: list[Array], firsts: Sequence[Array], computation: int, calls: Calls
) -> Sequence[Array]:
    """Everything along the first axis combined, behind the first value."""
    while len(flat[0]) > 1:
        even = len(flat[0]) & ~1
        pairs = [x[0:even:2] for x in flat] + [x[1:even:2] for x in flat]
        made = as_tuple(calls.lifted(computation, pairs))
        made = tuple(np.broadcast_to(x, pairs[0].shape) for x in made)
        flat = [np.concatenate([x, old[even:]]) for x, old in zip(made, flat, strict=True)]
    if not len(flat[0]):
        return firsts
    made = as_tuple(calls.lifted(computation, [*firsts, *(x[0] for x in flat)]))
    return [np.broadcast_to(x, firsts[0].shape) for x in made]


def reduce_window(step: Step, operands: Sequence[Any], calls: Calls) -> Any:
    """``ReduceWindow``: the elements of a window in order, behind the first value.

    Padding is left out, as ``HloEvaluator::HandleReduceWindow`` has it, whatever that value is.
    """
    count = len(operands) // 2
    arrays, starts = operands[:count], operands[count:]
    window = read_window(step)
    if any(len(window.size) != x.ndim or x.shape != arrays[0].shape for x in arrays):
        raise step.not_evaluated("its window does not fit its operand")
    sizes = window.outputs(arrays[0].shape)
    holes = [d - 1 for d in window.base_dilation]
    wide = [
        padded(step, x, start, window.low, window.high, holes)
        for x, start in zip(arrays, starts, strict=True)
    ]
    outside = np.zeros((), np.bool_)
    there = np.ones(arrays[0].shape, np.bool_)
    there = padded(step, there, outside, window.low, window.high, holes)
    computation = step.callee("to_apply")
    of = ufunc(combiner(step.module, computation), arrays[0]) if count == 1 else None
    made = [np.broadcast_to(start, sizes) for start in starts]
    for place in window.places():
        met = [window.cut(x, place, sizes) for x in wide]
        if of is not None:
            found: Sequence[Array] = [of(made[0], met[0])]
        else:
            found = as_tuple(calls.lifted(computation, [*made, *met]))
        is_there = window.cut(there, place, sizes)
        made = [np.where(is_there, new, old) for new, old in zip(found, made, strict=True)]
    return _given(step, made if of is None else [_typed(step, made[0])])


def select_and_scatter(step: Step, operands: Sequence[Any], calls: Calls) -> Array:
    """``SelectAndScatter``: a value for each window goes to the element that is selected in it.

    Of equal elements the first is selected as long as the selection holds between it and the next
    (``HloEvaluator::HandleSelectAndScatter``); padding never is.
    """
    x, source, start = operands
    window = read_window(step)
    if len(window.size) != x.ndim or window.outputs(x.shape) != source.shape:
        raise step.not_evaluated("its window does not fit its operands")
    numbers = np.arange(x.size, dtype=np.int64).reshape(x.shape)
    outside = np.full((), -1, np.int64)
    nothing = np.zeros((), x.dtype)
    holes = [0] * x.ndim
    values = padded(step, x, nothing, window.low, window.high, holes)
    numbers = padded(step, numbers, outside, window.low, window.high, holes)
    best = np.zeros(source.shape, x.dtype)
    chosen = np.full(source.shape, -1, np.int64)
    keeps = step.callee("select")
    for place in window.places():
        value, number = (window.cut(one, place, source.shape) for one in (values, numbers))
        is_kept = np.broadcast_to(calls.lifted(keeps, [best, value]), source.shape)
        is_new = (number >= 0) & ((chosen < 0) | ~is_kept)
        best, chosen = np.where(is_new, value, best), np.where(is_new, number, chosen)
    of = ufunc(combiner(step.module, step.callee("scatter")), x)
    if of is None:
        raise step.not_evaluated("its values are combined by more than one instruction")
    made = np.full(x.size, start, x.dtype)
    is_inside = chosen >= 0
    of.at(made, chosen[is_inside], source[is_inside])
    return _typed(step, made.reshape(x.shape))
