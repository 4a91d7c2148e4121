"""``dot`` and ``convolution``: sums of products."""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from xlagraph.evaluate.numbers import in_range
from xlagraph.evaluate.step import is_float
from xlagraph.evaluate.window import padded, read_window

if TYPE_CHECKING:
    from collections.abc import Sequence

    from xlagraph.evaluate.step import Array, Calls, Step


def dot(step: Step, operands: Sequence[Any], _: Calls) -> Array:
    """``DotGeneral``: batch dimensions come first, then those of the left, then of the right."""
    x, y = (_typed(step, operand) for operand in operands)
    batch_x, batch_y = step.integers("lhs_batch_dims"), step.integers("rhs_batch_dims")
    over_x, over_y = step.integers("lhs_contracting_dims"), step.integers("rhs_contracting_dims")
    free_x = [k for k in range(x.ndim) if k not in (*batch_x, *over_x)]
    free_y = [k for k in range(y.ndim) if k not in (*batch_y, *over_y)]
    batch = [x.shape[k] for k in batch_x]
    sizes = [*batch, *(x.shape[k] for k in free_x), *(y.shape[k] for k in free_y)]
    step.expects(sizes)
    terms = prod(x.shape[k] for k in over_x)
    if [x.shape[k] for k in over_x] != [y.shape[k] for k in over_y]:
        raise step.not_evaluated("its operands do not fit")
    left = x.transpose([*batch_x, *free_x, *over_x])
    right = y.transpose([*batch_y, *over_y, *free_y])
    left = left.reshape([*batch, prod(x.shape[k] for k in free_x), terms])
    right = right.reshape([*batch, terms, prod(y.shape[k] for k in free_y)])
    return _in_range(step, np.matmul(left, right).reshape(sizes))


def _typed(step: Step, x: Array) -> Array:
    """An operand as what it is summed up in."""
    if step.dtype.kind == "b":
        raise step.not_evaluated("of truth values")
    return x.astype(step.dtype, copy=False)


def _in_range(step: Step, x: Array) -> Array:
    return in_range(x, step.kind) if is_float(step.kind) else x


class _Labels(NamedTuple):
    """Which dimension is which: batch, feature, then the spatial ones in order."""

    inputs: tuple[int, ...]
    kernel: tuple[int, ...]
    """Outputs, inputs, then spatial."""
    outputs: tuple[int, ...]


def _labels(step: Step) -> _Labels:
    text = step.text("dim_labels").replace("->", "_")
    parts = text.split("_")
    if len(parts) != 3:
        raise step.not_evaluated("its labels are not known")
    spatial = "".join(map(str, range(len(parts[0]) - 2)))
    if any(
        sorted(p) != sorted(k + spatial) for p, k in zip(parts, ("bf", "oi", "bf"), strict=True)
    ):
        raise step.not_evaluated("its labels are not known")
    x, w, y = parts
    return _Labels(
        tuple(x.index(c) for c in "bf" + spatial),
        tuple(w.index(c) for c in "oi" + spatial),
        tuple(y.index(c) for c in "bf" + spatial),
    )


def convolution(step: Step, operands: Sequence[Any], _: Calls) -> Array:
    """``ConvGeneralDilated``: one matrix product for each element of the window."""
    x, w = (_typed(step, operand) for operand in operands)
    labels, window = _labels(step), read_window(step)
    x, w = x.transpose(labels.inputs), w.transpose(labels.kernel)
    if w.shape[2:] != window.size:
        raise step.not_evaluated("its window does not fit its kernel")
    groups = step.integer("feature_group_count", 1)
    batches = step.integer("batch_group_count", 1)
    flipped = tuple(k + 2 for k, back in enumerate(window.is_reversed) if back)
    w = np.flip(w, flipped) if flipped else w
    spatial = window.outputs(x.shape[2:])
    sizes = [x.shape[0] // batches, w.shape[0], *spatial]
    order = np.argsort(labels.outputs)
    step.expects([sizes[k] for k in order])
    parts = groups * batches
    if (
        min(groups, batches) < 1
        or w.shape[0] % parts
        or x.shape[0] % batches
        or x.shape[1] % groups
    ):
        raise step.not_evaluated("its groups do not fit its operands")
    if x.shape[1] // groups != w.shape[1]:
        raise step.not_evaluated("its operands do not fit")
    holes = (0, 0, *(d - 1 for d in window.base_dilation))
    zero = np.zeros((), x.dtype)
    x = padded(step, x, zero, (0, 0, *window.low), (0, 0, *window.high), holes)
    made = np.zeros([parts, w.shape[0] // parts, sizes[0], *spatial], step.dtype)
    grouped = w.reshape([parts, w.shape[0] // parts, w.shape[1], *window.size])
    for part in range(parts):
        share = _share(x, part, groups, batches)
        for place in window.places():
            met = window.cut(share.transpose([*range(2, x.ndim), 0, 1]), place, spatial)
            at: Any = (part, slice(None), slice(None), *place)
            weights = grouped[at]
            product = np.tensordot(weights, met, (1, -1))
            made[part] += np.moveaxis(product, -1, 1)
    made = np.moveaxis(made.reshape([w.shape[0], sizes[0], *spatial]), 0, 1)
    return _in_range(step, made.transpose(order))


def _share(x: Array, part: int, groups: int, batches: int) -> Array:
    """The features, or the examples, that a group of kernels meets."""
    if batches > 1:
        size = x.shape[0] // batches
        return x[part * size : (part + 1) * size]
    size = x.shape[1] // groups
    return x[:, part * size : (part + 1) * size]
