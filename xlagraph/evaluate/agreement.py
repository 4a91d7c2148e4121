"""Whether arrays are equal but for rounding, and which outputs of two modules are."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence

    from xlagraph.evaluate.step import Array

RELATIVE = 5e-7
"""Single precision's own step is 1.2e-7: constants are rounded to it, and little else is."""
ABSOLUTE = 3e-8
"""Relative to the largest value of an array: what is left where large terms cancel."""
NOTHING = 1e-14
"""What is left of a gradient that cancels as a whole, such as a bias's before a normalization."""
NOISY = 16.0
"""How many times what another rounding changes is taken to be rounding."""
MIN_FINITE = 0.9
"""The part of an output that has to be a number at one point at least."""


def are_close(x: Array, y: Array, noise: float = 0.0) -> bool:
    """Whether two arrays of one shape and type are equal but for rounding; NaN equals NaN.

    `noise`: how far another rounding of its inputs moves the first at most.
    """
    if x.dtype.kind not in "fc":
        return bool(np.array_equal(x, y))
    with np.errstate(all="ignore"):
        finite = np.isfinite(x)
        odd = ~finite
        if not np.array_equal(finite, np.isfinite(y)):
            return False
        if odd.any() and not np.array_equal(x[odd], y[odd], equal_nan=True):
            return False
        one, other = x[finite], y[finite]
        size = np.abs(one)
        allowed = RELATIVE * size + ABSOLUTE * size.max(initial=0.0) + NOTHING + noise
        return bool((np.abs(one - other) <= allowed).all())


def moved_by(x: Array, y: Array, before: float) -> float:
    """How far two roundings of one output are apart, with room, and at least as far as before."""
    with np.errstate(all="ignore"):
        apart = np.nan_to_num(np.abs(np.subtract(x, y, dtype=np.complex128)))
    return max(before, NOISY * float(apart.max(initial=0.0)))


def paired(
    values_a: Sequence[Sequence[Array]],
    values_b: Sequence[Sequence[Array]],
    shapes: tuple[Sequence[str], Sequence[str]],
    preferred: Sequence[int],
    noise: Sequence[Sequence[float]],
) -> tuple[int, ...] | None:
    """For each output of A one of B that is equal at every point, or None.

    `shapes`: without axes of one element, as outputs are compared. `values_a`: the outputs at each
    point; `preferred`: which output of B to ask first for each;
    `noise`: at each point how far another rounding moves A's. What A has more of a shape may have
    none: -1.
    """
    shapes_a, shapes_b = shapes
    free = set(range(len(shapes_b)))
    spare = Counter(shapes_a) - Counter(shapes_b)
    found: list[int] = []
    for k, shape in enumerate(shapes_a):
        order = [n for n in (preferred[k], *sorted(free)) if n in free and shapes_b[n] == shape]
        partner = next((n for n in order if _agree(values_a, values_b, noise, k, n)), None)
        if partner is not None:
            free.remove(partner)
        elif spare[shape] > 0:
            spare[shape] -= 1
        else:
            return None
        found.append(-1 if partner is None else partner)
    return tuple(found)


def _agree(
    a: Sequence[Sequence[Array]],
    b: Sequence[Sequence[Array]],
    noise: Sequence[Sequence[float]],
    k: int,
    n: int,
) -> bool:
    return all(
        are_close(np.squeeze(x[k]), np.squeeze(y[n]), z[k])
        for x, y, z in zip(a, b, noise, strict=True)
    )


def without_ones(sizes: Sequence[int]) -> tuple[int, ...]:
    """The sizes but for those of 1, which an array has the same elements without."""
    return tuple(n for n in sizes if n != 1)


def varies(values: Sequence[Array]) -> bool:
    """Whether an output is another one at some of several points."""
    return not all(np.array_equal(x, values[0], equal_nan=True) for x in values[1:])


def is_number(values: Sequence[Array]) -> bool:
    """Whether an output is a number for the most part at one of several points."""
    shares = [float(np.isfinite(x).mean()) if x.size else 1.0 for x in values]
    return max(shares) >= MIN_FINITE


def is_finite(values: Sequence[Array]) -> bool:
    """Whether outputs are numbers for the most part, so that they tell what they depend on."""
    size = sum(x.size for x in values)
    return sum(int(np.isfinite(x).sum()) for x in values) >= MIN_FINITE * size
