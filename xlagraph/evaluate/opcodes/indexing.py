"""``gather``, ``scatter``, ``sort`` and ``topk``: elements by numbers that are computed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from xlagraph.evaluate.numbers import in_range
from xlagraph.evaluate.opcodes.elementwise import in_total_order
from xlagraph.evaluate.opcodes.reduction import as_tuple, combiner, ufunc
from xlagraph.evaluate.step import is_float

if TYPE_CHECKING:
    from collections.abc import Sequence

    from xlagraph.evaluate.step import Array, Calls, Step

MAX_PAIRS = 4_000_000
"""Pairs of elements that a sort compares at once."""


def _vectors(step: Step, indices: Array) -> Array:
    """The index vectors, one in each row of the last dimension."""
    place = step.integer("index_vector_dim", indices.ndim)
    wide = indices[..., None] if place == indices.ndim else np.moveaxis(indices, place, -1)
    return np.asarray(wide).astype(np.int64)


def _spread(values: Array, axes: Sequence[int], rank: int) -> Array:
    """An array over some of the axes of a result, to be broadcast over all of them."""
    sizes = [1] * rank
    for k, axis in enumerate(axes):
        sizes[axis] = values.shape[k]
    return values.reshape(sizes)


def _counted(size: int, axis: int, rank: int) -> Array:
    return _spread(np.arange(size), [axis], rank)


def gather(step: Step, operands: Sequence[Any], _: Calls) -> Array:
    """``Gather``: slices that begin at index vectors, moved until they lie inside."""
    x, indices = operands
    vectors, sizes = _vectors(step, indices), step.integers("slice_sizes")
    offsets, starts = step.integers("offset_dims"), step.integers("start_index_map")
    batch_x = step.integers("operand_batching_dims")
    batch_i = step.integers("start_indices_batching_dims")
    gone = {*step.integers("collapsed_slice_dims"), *batch_x}
    rank = len(step.dimensions)
    batch = [k for k in range(rank) if k not in offsets]
    windows = [k for k in range(x.ndim) if k not in gone]
    if len(sizes) != x.ndim or len(windows) != len(offsets) or len(starts) != vectors.shape[-1]:
        raise step.not_evaluated("its dimensions do not fit its operands")
    expected = dict(zip(batch, vectors.shape[:-1], strict=True))
    expected |= {axis: sizes[k] for axis, k in zip(offsets, windows, strict=True)}
    step.expects([expected[k] for k in range(rank)])
    where: list[Any] = [np.zeros([1] * rank, np.int64) for _ in range(x.ndim)]
    for column, k in enumerate(starts):
        first = np.clip(vectors[..., column], 0, x.shape[k] - sizes[k])
        where[k] = where[k] + _spread(first, batch, rank)
    for k, axis in zip(batch_x, _of_batch(step, batch_i, batch), strict=True):
        where[k] = where[k] + _counted(step.dimensions[axis], axis, rank)
    for axis, k in zip(offsets, windows, strict=True):
        where[k] = where[k] + _counted(sizes[k], axis, rank)
    return np.broadcast_to(x[tuple(where)], step.dimensions)


def _of_batch(step: Step, dimensions: Sequence[int], batch: Sequence[int]) -> list[int]:
    """The axes of the result to which dimensions of the indices belong."""
    place = step.integer("index_vector_dim", len(batch))
    return [batch[k - (k > place)] for k in dimensions]


def scatter(step: Step, operands: Sequence[Any], calls: Calls) -> Any:
    """``Scatter``: what would lie outside in part is left out as a whole."""
    count = (len(operands) - 1) // 2
    arrays, indices, updates = operands[:count], operands[count], operands[count + 1 :]
    x, update = arrays[0], updates[0]
    vectors = _vectors(step, indices)
    windows, starts = (
        step.integers("update_window_dims"),
        step.integers("scatter_dims_to_operand_dims"),
    )
    batch_x = step.integers("input_batching_dims")
    batch_i = step.integers("scatter_indices_batching_dims")
    gone = {*step.integers("inserted_window_dims"), *batch_x}
    rank = update.ndim
    batch = [k for k in range(rank) if k not in windows]
    inner = [k for k in range(x.ndim) if k not in gone]
    fits = len(inner) == len(windows) and len(starts) == vectors.shape[-1]
    if not fits or [update.shape[k] for k in batch] != list(vectors.shape[:-1]):
        raise step.not_evaluated("its dimensions do not fit its operands")
    sizes = dict.fromkeys(range(x.ndim), 1)
    sizes |= {k: update.shape[axis] for axis, k in zip(windows, inner, strict=True)}
    where: list[Any] = [np.zeros([1] * rank, np.int64) for _ in range(x.ndim)]
    inside = np.ones([1] * rank, np.bool_)
    for column, k in enumerate(starts):
        first = _spread(vectors[..., column], batch, rank)
        where[k] = where[k] + first
        inside = inside & (first >= 0) & (first <= x.shape[k] - sizes[k])
    for k, axis in zip(batch_x, _of_batch(step, batch_i, batch), strict=True):
        where[k] = where[k] + _counted(update.shape[axis], axis, rank)
    for axis, k in zip(windows, inner, strict=True):
        where[k] = where[k] + _counted(sizes[k], axis, rank)
    kept = np.broadcast_to(inside, update.shape)
    flat = np.broadcast_to(_flat(where, x.shape), update.shape)[kept]
    made = _scattered(step, arrays, flat, [one[kept] for one in updates], calls)
    return tuple(made) if step.shape.is_tuple else made[0]


def _flat(where: Sequence[Array], sizes: Sequence[int]) -> Array:
    found = np.zeros((), np.int64)
    for at, size in zip(where, sizes, strict=True):
        found = np.asarray(found * size + at)
    return found


def _scattered(
    step: Step, arrays: Sequence[Array], places: Array, values: Sequence[Array], calls: Calls
) -> list[Array]:
    """The arrays with values put in; where one place takes several, in their order."""
    computation = step.callee("to_apply")
    called = step.module.computations[computation]
    made = [np.array(x).reshape(-1) for x in arrays]
    of = ufunc(combiner(step.module, computation), made[0]) if len(made) == 1 else None
    if of is not None:
        of.at(made[0], places, values[0])
        if is_float(step.kind):
            made[0] = in_range(made[0], step.kind)
    elif len(made) == 1 and called.root == called.parameters[1]:
        made[0][places] = values[0]
    elif len(np.unique(places)) == places.size:
        found = as_tuple(calls.lifted(computation, [*(x[places] for x in made), *values]))
        for x, new in zip(made, found, strict=True):
            x[places] = new
    else:
        raise step.not_evaluated("places take several values, by more than one instruction")
    return [x.reshape(old.shape) for x, old in zip(made, arrays, strict=True)]


def sort(step: Step, operands: Sequence[Any], calls: Calls) -> Any:
    """``Sort``, stable: each element's rank is how many come before it."""
    axis = step.integer("dimensions", operands[0].ndim - 1)
    moved = [np.moveaxis(x, axis, -1) for x in operands]
    size = moved[0].shape[-1]
    if any(x.shape != moved[0].shape for x in moved):
        raise step.not_evaluated("its operands do not fit")
    if moved[0].size * size > MAX_PAIRS:
        raise step.not_evaluated("it has too many elements")
    arguments = [one for x in moved for one in (x[..., :, None], x[..., None, :])]
    sizes = (*moved[0].shape, size)
    arguments = [np.broadcast_to(one, sizes) for one in arguments]
    before = np.broadcast_to(calls.lifted(step.callee("to_apply"), arguments), sizes)
    after = np.swapaxes(before, -1, -2)
    earlier = np.tri(size, k=-1, dtype=np.bool_)
    rank = (after | (~before & earlier)).sum(axis=-1)
    order = np.argsort(rank, axis=-1, kind="stable")
    made = [np.moveaxis(np.take_along_axis(x, order, -1), -1, axis) for x in moved]
    return tuple(made) if step.shape.is_tuple else made[0]


def topk(step: Step, operands: Sequence[Any], _: Calls) -> Any:
    """``TopK`` over the last dimension: values in order, and where they stood; stable."""
    (x,) = operands
    count = step.shape.parts[0].dimensions[-1]
    keys = in_total_order(x) if x.dtype.kind == "f" else x.astype(np.int64)
    is_largest = step.text("largest", "true") != "false"
    order = np.argsort(~keys if is_largest else keys, axis=-1, kind="stable")[..., :count]
    return np.take_along_axis(x, order, -1), order.astype(np.int32)
