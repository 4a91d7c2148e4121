"""Instructions with a meaning of their own: normalisation, random bits, collectives, libraries.

What nothing in a module tells has a stand-in that keeps what is known of it: random bits are a
function of state, algorithm and shape; a collective that adds is linear, other ones are not.
"""

from __future__ import annotations

from functools import lru_cache
from hashlib import blake2b
from typing import TYPE_CHECKING, Any

import numpy as np

from xlagraph.evaluate.opcodes.indexing import topk
from xlagraph.evaluate.opcodes.reduction import combiner
from xlagraph.patterns import re

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from xlagraph.evaluate.step import Array, Calls, Step

IDENTITIES = frozenset(
    (
        *('"Sharding"', '"SPMDFullToShardShape"', '"SPMDShardToFullShape"'),
        *('"annotate_device_placement"', '"MoveToHost"', '"MoveToDevice"', '"LayoutConstraint"'),
    )
)
_SHARDY = re.compile(r'"xla\.sdy\.\w+"')
_EPSILON = re.compile(r"[-+.\deE]+")


# -- normalisation ---------------------------------------------------------------------------


def _over(step: Step, x: Array) -> tuple[int, Callable[[Array], Array]]:
    """The elements of each feature, and what spreads one value for each feature over all."""
    feature = step.integer("feature_index")
    sizes = [1] * x.ndim
    sizes[feature] = x.shape[feature]

    def spread(values: Array) -> Array:
        return values.reshape(sizes)

    return x.size // max(x.shape[feature], 1), spread


def _sum(step: Step, x: Array) -> Array:
    feature = step.integer("feature_index")
    return np.asarray(x.sum(axis=tuple(k for k in range(x.ndim) if k != feature)))


def _epsilon(step: Step) -> float:
    found = _EPSILON.search(step.text("epsilon"))
    if not found:
        raise step.not_evaluated("it has no epsilon")
    return float(found[0])


def _batch_norm_training(step: Step, operands: Sequence[Any], _: Calls) -> Any:
    x, scale, offset = operands
    count, spread = _over(step, x)
    mean = _sum(step, x) / count
    centred = x - spread(mean)
    variance = _sum(step, centred * centred) / count
    made = centred / np.sqrt(spread(variance) + _epsilon(step))
    return made * spread(scale) + spread(offset), mean, variance


def _batch_norm_inference(step: Step, operands: Sequence[Any], _: Calls) -> Array:
    x, scale, offset, mean, variance = operands
    spread = _over(step, x)[1]
    made = (x - spread(mean)) / np.sqrt(spread(variance) + _epsilon(step))
    return np.asarray(made * spread(scale) + spread(offset))


def _batch_norm_grad(step: Step, operands: Sequence[Any], _: Calls) -> Any:
    x, scale, mean, variance, given = operands
    count, spread = _over(step, x)
    inverse = 1.0 / np.sqrt(variance + _epsilon(step))
    centred = x - spread(mean)
    grad_offset = _sum(step, given)
    grad_scale = _sum(step, given * centred) * inverse
    inner = centred * spread(inverse * grad_scale / count) + spread(grad_offset / count)
    return spread(scale * inverse) * (given - inner), grad_scale, grad_offset


# -- random bits -----------------------------------------------------------------------------


def _rng_bit_generator(step: Step, operands: Sequence[Any], _: Calls) -> Any:
    (state,) = operands
    new, bits = step.shape.parts
    seed = blake2b(digest_size=32)
    for part in (step.text("algorithm"), new.without_layout(), bits.without_layout()):
        seed.update(part.encode() + b"\0")
    seed.update(np.ascontiguousarray(state).tobytes())
    drawn = np.random.Generator(np.random.Philox(int.from_bytes(seed.digest(), "little") % 2**128))
    return tuple(_drawn(step, drawn, part.element_type, part.dimensions) for part in (new, bits))


def _drawn(step: Step, chance: Any, kind: str, sizes: Sequence[int]) -> Array:
    if kind not in ("u8", "u16", "u32", "u64"):
        raise step.not_evaluated(f"of type {kind}")
    dtype = np.dtype(f"u{int(kind[1:]) // 8}")
    return np.asarray(chance.integers(0, np.iinfo(dtype).max, sizes, dtype, endpoint=True))


# -- collectives -----------------------------------------------------------------------------


@lru_cache(maxsize=1024)
def _factor(text: str) -> float:
    """A number between 1.1 and 1.9 for a text."""
    digest = blake2b(text.encode(), digest_size=8).digest()
    return 1.1 + 0.8 * int.from_bytes(digest, "little") / 2.0**64


def _said(step: Step, by: str) -> str:
    attributes = step.module.attributes[step.number].items
    told = sorted(
        (key, value) for key, value in attributes if key not in ("channel_id", "sharding")
    )
    return f"{step.opcode} {by} {told}"


def _collective(step: Step, operands: Sequence[Any], _: Calls) -> Any:
    by = ""
    if step.opcode in ("all-reduce", "reduce-scatter"):
        by = combiner(step.module, step.callee("to_apply")) or "other"
    said = _said(step, by)
    shapes = step.shape.parts if step.shape.is_tuple else (step.shape,)
    if len(shapes) != len(operands):
        raise step.not_evaluated("its operands do not fit its shape")
    made = [
        _exchanged(step, x, shape.dimensions, said, by)
        for x, shape in zip(operands, shapes, strict=True)
    ]
    return tuple(made) if step.shape.is_tuple else made[0]


def _exchanged(step: Step, x: Array, sizes: Sequence[int], said: str, by: str) -> Array:
    """A stand-in: each block of the result is the operand, or a part of it, times a number."""
    if x.dtype.kind not in "fc":
        raise step.not_evaluated("of integers")
    axis = step.integer("dimensions") if step.opcode != "collective-permute" else 0
    if x.ndim and sizes[axis] > x.shape[axis]:
        blocks = sizes[axis] // max(x.shape[axis], 1)
        x = np.concatenate([x * _factor(f"{said} {k}") for k in range(blocks)], axis)
    elif x.ndim and sizes[axis] < x.shape[axis]:
        x = np.take(x, np.arange(sizes[axis]), axis)
    if step.opcode == "all-to-all" and x.ndim:
        x = np.roll(x, 1, axis)
    if by not in ("", "add"):
        x = x + 0.1 * np.sin(x)  # grows with x, and is not linear
    return np.asarray(x * _factor(said))


def _device(step: Step, _: Sequence[Any], calls: Calls) -> Array:
    return np.full(step.dimensions, calls.device, step.dtype)


# -- libraries -------------------------------------------------------------------------------


def _custom_call(step: Step, operands: Sequence[Any], calls: Calls) -> Any:
    target = step.text("custom_call_target")
    if target == '"TopK"':
        return topk(step, operands, calls)
    is_note = target in IDENTITIES or _SHARDY.fullmatch(target) is not None
    if not is_note or not operands:
        raise step.not_evaluated(f"of {target}")
    shapes = step.shape.parts if step.shape.is_tuple else (step.shape,)
    pairs = zip(operands, shapes, strict=True)
    made = [_resized(step, x, shape.dimensions) for x, shape in pairs]
    return tuple(made) if step.shape.is_tuple else made[0]


def _resized(step: Step, x: Any, sizes: Sequence[int]) -> Any:
    """Between a whole array and one device's part of it: the first part, or the part repeated."""
    if isinstance(x, tuple) or x.shape == sizes:
        return x
    if x.ndim != len(sizes):
        raise step.not_evaluated("to another rank")
    for axis, size in enumerate(sizes):
        x = np.take(x, np.arange(size) % max(x.shape[axis], 1), axis)
    return x


def _cholesky(step: Step, operands: Sequence[Any], _: Calls) -> Array:
    (x,) = operands
    is_lower = step.is_true("lower")
    half = np.tril(x) if is_lower else np.swapaxes(np.triu(x), -1, -2)
    whole = half + np.swapaxes(np.tril(half, -1), -1, -2)
    made = np.linalg.cholesky(whole)
    return np.asarray(made if is_lower else np.swapaxes(made, -1, -2))


def _triangular_solve(step: Step, operands: Sequence[Any], _: Calls) -> Array:
    a, b = operands
    a = np.tril(a) if step.is_true("lower") else np.triu(a)
    if step.is_true("unit_diagonal"):
        a = a - a * np.eye(a.shape[-1]) + np.eye(a.shape[-1])
    if step.text("transpose_a", "NO_TRANSPOSE") != "NO_TRANSPOSE":
        a = np.swapaxes(a, -1, -2)
    if step.is_true("left_side"):
        return np.asarray(np.linalg.solve(a, b))
    turned = np.linalg.solve(np.swapaxes(a, -1, -2), np.swapaxes(b, -1, -2))
    return np.asarray(np.swapaxes(turned, -1, -2))


def _fft(step: Step, operands: Sequence[Any], _: Calls) -> Array:
    (x,) = operands
    sizes = step.integers("fft_length")
    axes = range(x.ndim - len(sizes), x.ndim)
    of: dict[str, Any] = {
        "FFT": np.fft.fftn,
        "IFFT": np.fft.ifftn,
        "RFFT": np.fft.rfftn,
        "IRFFT": np.fft.irfftn,
    }
    return np.asarray(of[step.text("fft_type")](x, sizes, axes))


HANDLERS: dict[str, Callable[[Step, Sequence[Any], Calls], Any]] = {
    "all-gather": _collective,
    "all-reduce": _collective,
    "all-to-all": _collective,
    "batch-norm-grad": _batch_norm_grad,
    "batch-norm-inference": _batch_norm_inference,
    "batch-norm-training": _batch_norm_training,
    "cholesky": _cholesky,
    "collective-broadcast": _collective,
    "collective-permute": _collective,
    "custom-call": _custom_call,
    "fft": _fft,
    "partition-id": _device,
    "reduce-scatter": _collective,
    "replica-id": _device,
    "rng-bit-generator": _rng_bit_generator,
    "topk": topk,
    "triangular-solve": _triangular_solve,
}
