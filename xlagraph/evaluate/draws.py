"""Arguments at random, the same in every process.

Each point asks something else: signs, what is defined for positive values alone, magnitudes, small
values, beside which an epsilon counts, and zeros, where comparisons part.
"""

from __future__ import annotations

from math import prod
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from xlagraph.evaluate.numbers import jittered, rounded
from xlagraph.evaluate.step import is_float, type_of

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from xlagraph.evaluate.step import Array
    from xlagraph.hlo.shapes import Shape

    Chance = np.random.Generator

_SEED = 20_240_229


def _signed(chance: Chance, sizes: Sequence[int]) -> Array:
    return chance.normal(size=sizes)


def _positive(chance: Chance, sizes: Sequence[int]) -> Array:
    return chance.uniform(0.05, 1.0, sizes)


def _mixed(chance: Chance, sizes: Sequence[int]) -> Array:
    size = 10.0 ** chance.uniform(-3.0, 3.0, sizes)
    sign = chance.choice([-1.0, 1.0], sizes)
    return np.asarray(size * sign)


def _small(chance: Chance, sizes: Sequence[int]) -> Array:
    return np.asarray(10.0 ** chance.uniform(-14.0, -2.0, sizes))


def _half(chance: Chance, sizes: Sequence[int]) -> Array:
    return chance.normal(scale=0.5, size=sizes)


def _with_zeros(chance: Chance, sizes: Sequence[int]) -> Array:
    values = chance.normal(size=sizes)
    if values.size > 1:
        start, by = chance.integers(0, 3), chance.integers(3, 6)
        values.reshape(-1)[start::by] = 0.0
    return values


_FLOATS: tuple[Callable[[Chance, Sequence[int]], Array], ...] = (
    *(_signed, _positive, _half, _mixed, _small, _with_zeros),
)
_INTEGERS = (4, 4, 4, 4, 4, 8)
"""Integers are below: they have to be valid numbers of rows, classes and positions."""
LARGE, _MANY = 3, 100_000
"""Where numbers are large and small, and counters beyond the steps of any schedule; and what is
added to these there."""
_WIDE = 4
"""Bytes of a number that can be as large."""
_ROUNDING = 1e-13
"""How far numbers are moved that are rounded otherwise, relative to their size."""
_DOWN = 0.2
"""What is taken of numbers from which values overflow."""
POINTS = len(_FLOATS)
"""How many arguments there are for each module."""
WITH_ZEROS = POINTS - 1
"""The one with exact zeros, asked last."""


class Domains(NamedTuple):
    """What some of a module's inputs are, by number, as far as what takes them in tells."""

    positive: frozenset[int] = frozenset()
    """Such as are positive, or zero."""
    counters: frozenset[int] = frozenset()
    """Single whole numbers that count on, and are large at one point."""
    bounds: Mapping[int, float] = MappingProxyType({})
    """Bounds that hold nothing back at every second point, with the number that they are there:
    a bound on one side has the largest number there is on the other."""
    lengths: Mapping[int, int] = MappingProxyType({})
    """Whole numbers up to which positions count, as those of padded rows, with how many there are:
    at least 1 where rows are such as there are."""
    wraps: Mapping[int, int] = MappingProxyType({})
    """Whole numbers that are taken modulo another, as positions in a ring, with that one: beyond it
    at every second point."""
    marks: Mapping[int, tuple[int, ...]] = MappingProxyType({})
    """Whole numbers that are asked whether they are one, as a label is that is not counted, with
    those that are no row: some are so at every second point."""

    def both_mark(self, other: Domains) -> Domains:
        """These, with those marks alone that another module asks for as well."""
        asked = {mark for own in other.marks.values() for mark in own}
        both = {k: (*(x for x in own if x in asked),) for k, own in self.marks.items()}
        return self._replace(marks={k: own for k, own in both.items() if own})


def arguments_at(point: int, shapes: Sequence[Shape], domains: Domains, rows: int = 0) -> list[Any]:
    """Arguments of these shapes; `point` is below `POINTS`.

    `rows`: what whole numbers stay below, if it is less than they do anyway; 0 for no such.
    """
    positive, counters, bounds, lengths, wraps, marks = domains
    drawn = [
        _drawn(np.random.default_rng((_SEED, point, k)), k, point, shape, rows)
        for k, shape in enumerate(shapes)
    ]
    if rows:
        drawn = [
            _length(x, point, k, lengths[k]) if k in lengths else x for k, x in enumerate(drawn)
        ]
    if point % 2:
        drawn = [x + wraps[k] if k in wraps else x for k, x in enumerate(drawn)]
        drawn = [_marked(x, marks[k]) if k in marks else x for k, x in enumerate(drawn)]
    if point == LARGE:
        drawn = [
            x + _MANY if k in counters and x.dtype.itemsize >= _WIDE else x
            for k, x in enumerate(drawn)
        ]
    if point % 2 == 0:
        drawn = [bounds.get(k, x) for k, x in enumerate(drawn)]
    return [
        np.abs(x) if k in positive and isinstance(x, np.ndarray) and x.dtype.kind == "f" else x
        for k, x in enumerate(drawn)
    ]


def _length(array: Any, point: int, number: int, most: int) -> Any:
    """Lengths in place of whole numbers, each of 1 to so many."""
    chance = np.random.default_rng((_SEED, point, number, most))
    return chance.integers(1, most + 1, array.shape).astype(array.dtype)


def _marked(array: Any, marks: Sequence[int]) -> Any:
    """Whole numbers, of which every third is one of these marks."""
    flat = array.flatten()
    flat[1::3] = np.resize(marks, len(flat[1::3]))
    return flat.reshape(array.shape)


def limited(array: Any, numbers: Sequence[float], *, ones_first: bool = False) -> Any:
    """The array with one number at all places, or one of two: the second above its median.

    `ones_first`: the second stands first along the last axis, at one place at least; where that has
    one place alone there is no first.
    """
    if not isinstance(array, np.ndarray):
        return array
    is_second = array > np.median(array)
    if ones_first and array.ndim and array.shape[-1] > 1:
        is_second = -np.sort(-is_second.astype(int), axis=-1) > 0
        is_second[..., 0] = True
    return np.where(is_second, numbers[-1], numbers[0]).astype(array.dtype)


def shrunk(array: Any) -> Any:
    """The array with numbers of fewer magnitudes; whole numbers as they are."""
    return np.cbrt(array) if _is_of_floats(array) else array


def scaled_down(array: Any) -> Any:
    """The array with smaller numbers; whole numbers as they are."""
    return _DOWN * array if _is_of_floats(array) else array


def _is_of_floats(array: Any) -> bool:
    return isinstance(array, np.ndarray) and array.dtype.kind == "f"


def rounded_otherwise(array: Any, seed: Sequence[int]) -> Any:
    """The array as if its numbers were made with other roundings; whole numbers as they are."""
    return jittered(array, np.random.default_rng((_SEED, *seed)), _ROUNDING)


def argument_like(shape: Shape, label: int, *, is_other: bool, rows: int = 0) -> Any:
    """An argument that all inputs with this label get, or another one; small and positive."""
    chance = np.random.default_rng((_SEED, POINTS + is_other, label))
    return _filled(chance, shape, rows)


def _filled(chance: Chance, shape: Shape, rows: int) -> Any:
    if shape.is_tuple:
        return tuple(_filled(chance, part, rows) for part in shape.parts)
    dtype = type_of(shape.element_type)
    if dtype.kind in "biu":
        top = _top(dtype, 0, rows)
        return chance.integers(0, top, shape.dimensions).astype(dtype)
    values = chance.uniform(0.02, 0.3, shape.dimensions)
    return rounded(values, shape.element_type) if is_float(shape.element_type) else values


def _top(dtype: Any, point: int, rows: int) -> int:
    most = 2 if dtype.kind == "b" else _INTEGERS[point]
    return min(most, rows or most)


def _drawn(chance: Chance, number: int, point: int, shape: Shape, rows: int) -> Any:
    if shape.is_tuple:
        return tuple(_drawn(chance, number, point, part, rows) for part in shape.parts)
    kind, sizes = shape.element_type, shape.dimensions
    dtype = type_of(kind)
    if dtype.kind in "biu":
        top = _top(dtype, point, rows)
        drawn = chance.integers(0, top, sizes)
        if prod(sizes) == 1:  # another one at each point
            drawn = np.full(sizes, (number + point) % top)
        return drawn.astype(dtype)
    values = _FLOATS[point](chance, sizes)
    if dtype.kind == "c":
        return values + 1j * _FLOATS[point](chance, sizes)
    return rounded(values, kind) if is_float(kind) else values
