"""Instructions that move elements, and compute none."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from xlagraph.evaluate.window import padded
from xlagraph.patterns import re

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from xlagraph.evaluate.step import Array, Calls, Step

_SLICE = re.compile(r"\[\s*(\d{1,18})\s*:\s*(\d{1,18})\s*(?::\s*(\d{1,18})\s*)?\]")


def _broadcast(step: Step, operands: Sequence[Any], _: Calls) -> Array:
    """``BroadcastInDim``: each dimension of the operand becomes the one that is named for it."""
    (x,) = operands
    dimensions = step.integers("dimensions")
    if len(dimensions) != x.ndim or len({*dimensions}) != x.ndim:
        raise step.not_evaluated("its dimensions do not fit its operand")
    order = sorted(range(x.ndim), key=lambda k: dimensions[k])
    sizes = [1] * len(step.dimensions)
    for k, place in enumerate(dimensions):
        sizes[place] = x.shape[k]
    return np.broadcast_to(x.transpose(order).reshape(sizes), step.dimensions)


def _reshape(step: Step, operands: Sequence[Any], _: Calls) -> Array:
    return np.asarray(operands[0].reshape(step.dimensions))


def _transpose(step: Step, operands: Sequence[Any], _: Calls) -> Array:
    return np.asarray(operands[0].transpose(step.integers("dimensions")))


def _reverse(step: Step, operands: Sequence[Any], _: Calls) -> Array:
    return np.flip(operands[0], step.integers("dimensions"))


def _slice(step: Step, operands: Sequence[Any], _: Calls) -> Array:
    parts = [
        slice(int(start), int(stop), int(by or 1))
        for start, stop, by in _SLICE.findall(step.text("slice"))
    ]
    if len(parts) != operands[0].ndim:
        raise step.not_evaluated("its bounds do not fit its operand")
    return np.asarray(operands[0][tuple(parts)])


def _starts(
    step: Step, given: Sequence[Any], sizes: Sequence[int], whole: Sequence[int]
) -> list[int]:
    """Where a part begins, which lies wholly inside."""
    found = (
        [int(n) for n in given] if len(given) != 1 or given[0].ndim == 0 else [*map(int, given[0])]
    )
    if not len(found) == len(sizes) == len(whole):
        raise step.not_evaluated("its starts do not fit its operand")
    return [min(max(at, 0), n - size) for at, size, n in zip(found, sizes, whole, strict=True)]


def _dynamic_slice(step: Step, operands: Sequence[Any], _: Calls) -> Array:
    x, *given = operands
    starts = _starts(step, given, step.dimensions, x.shape)
    parts = [slice(at, at + n) for at, n in zip(starts, step.dimensions, strict=True)]
    return np.asarray(x[tuple(parts)])


def _dynamic_update_slice(step: Step, operands: Sequence[Any], _: Calls) -> Array:
    x, update, *given = operands
    starts = _starts(step, given, update.shape, x.shape)
    made = np.array(x)
    made[tuple(slice(at, at + n) for at, n in zip(starts, update.shape, strict=True))] = update
    return made


def _pad(step: Step, operands: Sequence[Any], _: Calls) -> Array:
    x, value = operands
    text = step.text("padding")
    given = [tuple(map(int, part.split("_"))) for part in text.split("x")] if text else []
    if len(given) != x.ndim or any(len(part) not in (2, 3) for part in given):
        raise step.not_evaluated("its padding does not fit its operand")
    low, high = [part[0] for part in given], [part[1] for part in given]
    return padded(step, x, value, low, high, [part[2] if len(part) > 2 else 0 for part in given])


def _concatenate(step: Step, operands: Sequence[Any], _: Calls) -> Array:
    axis = step.integer("dimensions")
    sizes = list(operands[0].shape)
    sizes[axis] = sum(x.shape[axis] for x in operands)
    step.expects(sizes)
    return np.concatenate(operands, axis)


def _iota(step: Step, _: Sequence[Any], __: Calls) -> Array:
    axis = step.integer("iota_dimension")
    counted = np.arange(step.dimensions[axis]).astype(step.dtype)
    sizes = [1] * len(step.dimensions)
    sizes[axis] = step.dimensions[axis]
    return np.broadcast_to(counted.reshape(sizes), step.dimensions)


def _same(_: Step, operands: Sequence[Any], __: Calls) -> Any:
    return operands[0] if len(operands) == 1 else tuple(operands)


def _bitcast(step: Step, operands: Sequence[Any], _: Calls) -> Array:
    """Before optimization a bitcast is a reshape; layouts, which it may change, are not known."""
    if step.operand_shape(0).element_type != step.kind:
        raise step.not_evaluated("to another type")
    if operands[0].shape == step.dimensions:
        return np.asarray(operands[0])
    wide = [n for n in operands[0].shape if n != 1], [n for n in step.dimensions if n != 1]
    if wide[0] != wide[1]:
        raise step.not_evaluated("to other sizes")
    return np.asarray(operands[0].reshape(step.dimensions))


def _element(step: Step, operands: Sequence[Any], _: Calls) -> Any:
    return operands[0][step.integer("index")]


def _tuple(_: Step, operands: Sequence[Any], __: Calls) -> Any:
    return tuple(operands)


def _token(_: Step, __: Sequence[Any], ___: Calls) -> Any:
    return ()


HANDLERS: dict[str, Callable[[Step, Sequence[Any], Calls], Any]] = {
    "add-dependency": lambda step, operands, calls: _same(step, operands[:1], calls),
    "after-all": _token,
    "bitcast": _bitcast,
    "broadcast": _broadcast,
    "concatenate": _concatenate,
    "copy": _same,
    "domain": _same,
    "dynamic-slice": _dynamic_slice,
    "dynamic-update-slice": _dynamic_update_slice,
    "get-tuple-element": _element,
    "iota": _iota,
    "opt-barrier": _same,
    "optimization-barrier": _same,
    "pad": _pad,
    "reshape": _reshape,
    "reverse": _reverse,
    "slice": _slice,
    "transpose": _transpose,
    "tuple": _tuple,
}
