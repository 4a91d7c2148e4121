"""Python numbers that are handed in, solved for, where no likely ones let two modules agree.

Two texts of one formula may hand in numbers that follow from each other in any way: ``2 * pi`` in
a density, ``log(2 * pi)`` in its logarithm. What both modules come to are equations for them, and
Newton's method, damped (Levenberg, 1944; Marquardt, 1963), solves these. As all arrays of a shape
are equal, nothing has to be known of which input is which. torch_xla writes 0 and 1 into the text,
and hands each other number in once: values that say otherwise are no solution.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from functools import lru_cache
from itertools import combinations, islice
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from xlagraph.evaluate.agreement import without_ones
from xlagraph.evaluate.pairing.handed_in import (
    FORMS,
    FRACTIONS,
    SAME,
    Guess,
    Numbers,
    Search,
    drawn,
)
from xlagraph.evaluate.pairing.inputs import arguments_of

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterator, Sequence

    from xlagraph.evaluate.pairing.handed_in import Role
    from xlagraph.evaluate.pairing.inputs import Asked
    from xlagraph.evaluate.step import Array
    from xlagraph.graph import Module

MAX_UNKNOWN = 20
"""Numbers of both modules that are solved for."""
MAX_SOLUTIONS = 2
"""So many are tried, where they do not let all outputs agree."""
STARTS = 6
"""From so many points the solution is sought."""
TURNS = 30
"""Steps from one of them."""
DAMPINGS = 7
"""How often a step is damped until it leads nearer."""
LIKELY = (0.5, 2.0, -1.0, -0.5, 0.1, 0.9, 3.0, -2.0, 10.0)
"""What numbers in programs are, to begin with."""
NICE = (*(n / d for d in (1, 2, 3, 4, 5, 8, 10) for n in range(1, 65)),)
"""What a number is taken to be that comes as near as rounding lets it."""
MIN_GAIN = 1e-3
"""The part of what is apart that a step has to take away."""
PROJECTIONS = 3
"""Sums of an output that are compared, each with other weights."""
_EQUAL = 1e-6
_NOTHING = 1e-9
_STEP = 1e-6
_NEAR = 1e-4
"""How near values are that say nothing new."""
_ROUGH = 1e-3
"""How far from what it is a number may be solved, where little depends on it."""
_FAR = 1e5
_FREE = 1e-5
"""The part of a direction in which nothing moves that makes a number free."""


def solved_numbers(asked: Asked) -> Iterator[Numbers]:
    """Numbers of both programs with which their outputs come to the same, where they are solved.

    First those are sought that the other module has none like; then all but what is used for
    weights of many sizes.

    Raises:
        NotEvaluatedError: that costs too much.
    """
    first, second = (program.module for program in asked.programs)
    search = Search(first, second)
    few, many = (_unknown(asked, search, every=every) for every in (False, True))
    for unknown in (few, many)[: 2 if few.total else 0]:
        if 0 < unknown.total <= MAX_UNKNOWN:
            ways = [_Equations(asked, search, unknown, points) for points in (1, 2)]
            yield from islice(_solutions(*ways), MAX_SOLUTIONS)


class _Unknown(NamedTuple):
    """The numbers of both modules that are sought, and those that both have."""

    places: tuple[tuple[int, ...], tuple[int, ...]]
    shared: tuple[dict[int, int], dict[int, int]]
    """Each with its class: numbers of one class do alike."""
    alike: tuple[int, ...]
    """For each that is sought the first that does alike, where all begin with the same value."""
    sizes: tuple[tuple[float, ...], ...]
    """For each the sizes that it may be, of one that divides values."""

    @property
    def total(self) -> int:
        """How many are sought."""
        return sum(map(len, self.places))


class _Key(NamedTuple):
    """What a number does, by which it is the other module's."""

    uses: Hashable
    is_taken_off: bool
    shapes: frozenset[tuple[int, ...]]

    @classmethod
    def of(cls, role: Role) -> _Key:
        """The key of a role; of what values are compared with alone, whatever their sizes."""
        if {opcode for opcode, *_ in role.uses} == {"compare"}:
            return cls("compare", role.is_taken_off, frozenset({()}))
        return cls(role.uses, role.is_taken_off, role.shapes)

    @property
    def is_for_all(self) -> bool:
        """Whether it is used for weights of many sizes."""
        return not self.shapes


def _unknown(asked: Asked, search: Search, *, every: bool) -> _Unknown:
    """The numbers that one module has more of than the other; or all that may be others."""
    sides = [
        {k: _Key.of(role) for k, role in side.items() if k not in fixed}
        for side, fixed in zip((search.own, search.other), search.fixed, strict=True)
    ]
    counts = [Counter(side.values()) for side in sides]
    even = {key for key in counts[0] if counts[0][key] == counts[1][key]}
    labels = {key: label for label, key in enumerate(dict.fromkeys(counts[0]), 1)}
    places, shared = [], []
    for side, program in zip(sides, asked.programs, strict=True):
        kept = _states(program.module)
        own = {
            k: labels[key]
            for k, key in side.items()
            if key in even and (not every or key.is_for_all or k in kept)
        }
        sought = tuple(k for k in side if k not in own)
        places.append(() if kept & {*sought} else sought)
        shared.append(own)
    if every and not all(places):
        places = [(), ()]
    known: dict[_Key, int] = {}
    keys = [side[k] for side, sought in zip(sides, places, strict=True) for k in sought]
    alike = tuple(known.setdefault(key, n) for n, key in enumerate(keys))
    told = zip((search.own, search.other), places, strict=True)
    sizes = tuple(_sizes(side[k]) for side, sought in told for k in sought)
    return _Unknown((places[0], places[1]), (shared[0], shared[1]), alike, sizes)


def _sizes(role: Role) -> tuple[float, ...]:
    return tuple(float(n) for n in role.sizes if n > 1) if role.divides else ()


def _states(module: Module) -> set[int]:
    """Numbers, by their place among the inputs, that outputs carry on, as updates of them do."""
    inputs = {i: k for k, i in enumerate(module.entry_computation.parameters)}
    front = [i for i in module.outputs if module.shapes[i].startswith(FRACTIONS)]
    found = set()
    for i in front:  # grows while it is read
        if i in inputs:
            found.add(inputs[i])
        operands = module.operands[i]
        numbers = [k for k in operands if module.opcodes[k] in ("constant", "parameter")]
        if module.opcodes[i] in ("add", "subtract", *FORMS):
            front.extend(operands)
        elif len(numbers) == len(operands) > 1:
            front.extend(numbers)
        elif numbers:
            front.extend(k for k in operands if k not in numbers)
    return found


class _Values(NamedTuple):
    """What both programs come to with some numbers, side by side."""

    apart: Array
    size: Array

    @property
    def differing(self) -> Array:
        """Which of them are apart by more than rounding."""
        return ~(np.abs(self.apart) <= _EQUAL * self.size + _NOTHING)

    @property
    def agree(self) -> bool:
        """Whether none is."""
        return not self.differing.any()


@dataclass(frozen=True, slots=True)
class _Slopes:
    """How what is apart moves with each number, each row made as long as the others."""

    rows: Array
    weights: Array

    def leaves(self, values: _Values) -> bool:
        """Whether something differs that no number moves."""
        return bool((values.differing & np.isfinite(values.apart) & (self.weights == 0.0)).any())

    def apart(self, values: _Values) -> float:
        """How far the sides are apart, by these weights; infinite where one is no number."""
        with np.errstate(all="ignore"):
            total = float(((values.apart * self.weights) ** 2).sum())
        return total if np.isfinite(total) else float("inf")

    def step(self, values: _Values, damping: float) -> Array:
        """The step that leads nearest, the shorter the more it is damped."""
        count = self.rows.shape[1]
        least = (damping * max(float((self.rows**2).sum()) / count, _NOTHING)) ** 0.5
        toward = np.nan_to_num(values.apart) * self.weights
        rows = np.concatenate([self.rows, least * np.eye(count)])
        found = np.linalg.lstsq(rows, np.concatenate([-toward, np.zeros(count)]), rcond=None)
        return np.asarray(found[0])

    def free(self) -> list[int]:
        """The numbers that move along with others, while nothing else moves."""
        _, sizes, directions = np.linalg.svd(self.rows, full_matrices=True)
        kept = int((sizes > _FREE * sizes.max(initial=0.0)).sum())
        share = np.abs(directions[kept:]).max(axis=0, initial=0.0)
        return [int(k) for k in np.flatnonzero(share > _FREE)]


class _Equations:
    """What both programs come to, as equations for the numbers that are not known."""

    def __init__(self, asked: Asked, search: Search, unknown: _Unknown, points: int = 1) -> None:
        """`points`: with so many sets of arrays both programs have to come to the same."""
        self.asked = asked
        self.unknown = unknown
        self.fixed = search.fixed
        self.given = tuple(
            {**fixed, **{k: drawn(label) for k, label in known.items()}}
            for fixed, known in zip(search.fixed, unknown.shared, strict=True)
        )
        self.arguments = tuple(
            [self._arguments(side, point) for point in range(points)] for side in (0, 1)
        )
        self.seen: tuple[bytes, Array] | None = None

    def _arguments(self, side: int, point: int) -> list[Any]:
        numbers = {*self.given[side], *self.unknown.places[side]}
        made = arguments_of(self.asked, side, numbers, point)
        for k, value in self.given[side].items():
            made[k] = value
        return made

    def at(self, point: Array) -> _Values:
        """What the programs come to, with these values of the numbers that are not known."""
        parts = np.split(point, [len(self.unknown.places[0])])
        if self.seen is None or self.seen[0] != parts[0].tobytes():
            self.seen = parts[0].tobytes(), self._told(0, parts[0])
        own, other = self.seen[1], self._told(1, parts[1])
        with np.errstate(all="ignore"):
            return _Values(own - other, np.abs(own) + np.abs(other))

    def _told(self, side: int, values: Array) -> Array:
        told = []
        for known in self.arguments[side]:
            arguments = [*known]
            for k, value in zip(self.unknown.places[side], values, strict=True):
                arguments[k] = float(value)
            told.append(_projected(self.asked, side, arguments))
        return np.concatenate(told)

    def are_possible(self, point: Array) -> bool:
        """Whether a module may be handed in all these numbers, beside each other."""
        if _is_odd(point).any():
            return False
        parts = np.split(point, [len(self.unknown.places[0])])
        for program, places, values in zip(
            self.asked.programs, self.unknown.places, parts, strict=True
        ):
            told = [
                (program.parameters[k].element_type, x) for k, x in zip(places, values, strict=True)
            ]
            for (kind, x), (other, y) in combinations(told, 2):
                if kind == other and abs(x - y) <= _NEAR * abs(x):
                    return False
        return True

    def moved_off(self, point: Array) -> Array:
        """The point, with other values for numbers that are not handed in so.

        Where numbers of both follow from each other the way that is nearest may lead to 0.
        """
        return np.where(_is_odd(point), _apart_from_each_other(len(point)), point)

    def numbers(self, point: Array, free: Sequence[int]) -> Numbers:
        """The numbers of both programs."""
        places, shared = self.unknown.places, self.unknown.shared
        here = [(0, k) for k in places[0]] + [(1, k) for k in places[1]]
        solved: tuple[dict[int, float], dict[int, float]] = ({**self.fixed[0]}, {**self.fixed[1]})
        for (side, k), value in zip(here, point, strict=True):
            solved[side][k] = float(value)
        fitting = [frozenset(here[n][1] for n in free if here[n][0] == side) for side in (0, 1)]
        members = {k: Guess(label, SAME) for k, label in shared[1].items()}
        return Numbers(shared[0], members, {}, solved, (fitting[0], fitting[1]))

    def slopes(self, point: Array, values: _Values) -> _Slopes:
        """How what is apart moves from a point on, relative to the numbers there."""
        scale = _scale(point)
        columns = []
        for k, unit in enumerate(_STEP * scale):
            moved = point.copy()
            moved[k] += unit
            with np.errstate(all="ignore"):
                columns.append((self.at(moved).apart - values.apart) / _STEP)
        rows = np.nan_to_num(np.stack(columns, axis=1), posinf=0.0, neginf=0.0)
        size = np.sqrt((rows**2).sum(axis=1))
        moves = size > _NOTHING * np.nan_to_num(values.size, posinf=0.0)
        weights = np.where(moves, 1.0 / (size + _NOTHING), 0.0)
        return _Slopes(rows * weights[:, None], weights)


def _is_odd(point: Array) -> Array:
    """Which numbers torch_xla does not hand in, or ran away from a solution that is none."""
    size = np.abs(point)
    return (size < _NEAR) | (np.abs(point - 1.0) < _NEAR) | (size > _FAR)


def _scale(point: Array) -> Array:
    return np.abs(point) + 0.1


# -- solving ---------------------------------------------------------------------------------


def _solutions(equations: _Equations, of_both: _Equations) -> Iterator[Numbers]:
    """Solutions with one set of arrays that are so with two; from some that are not others follow.

    Numbers may make up for each other where a loss and its derivatives are seen once.
    """
    chance = np.random.default_rng(0)
    unknown = equations.unknown
    for start in range(STARTS):
        likely = _likely(chance, unknown) if start else _apart_from_each_other(unknown.total)
        found = _solution(equations, likely[list(unknown.alike)])
        if found is not None and not of_both.at(found[0]).agree:
            equations = of_both
            found = _solution(equations, likely[list(unknown.alike)])
        if found is not None and not equations.are_possible(found[0]):
            if not found[1]:
                return  # there is no other one
            found = _solution(of_both, equations.moved_off(found[0]))
        if found is not None and equations.are_possible(found[0]):
            yield equations.numbers(*found)


def _likely(chance: np.random.Generator, unknown: _Unknown) -> Array:
    """Numbers as programs have them; what divides is a size as often as not."""
    found = chance.choice(LIKELY, unknown.total)
    for k, sizes in enumerate(unknown.sizes):
        if sizes and chance.integers(2):
            found[k] = chance.choice(sizes)
    return np.asarray(found)


def _apart_from_each_other(count: int) -> Array:
    """So many numbers about 0.5."""
    return np.array([0.4 + 0.2 * drawn(label) for label in range(1, count + 1)])


def _solution(equations: _Equations, point: Array) -> tuple[Array, list[int]] | None:
    """Where both programs come to the same, and which numbers are free there; None if nowhere."""
    values = equations.at(point)
    damping = 0.01
    slopes = equations.slopes(point, values)
    if slopes.leaves(values):
        return None
    for _ in range(TURNS):
        before = slopes.apart(values)
        for _ in range(DAMPINGS):
            moved = point + np.clip(slopes.step(values, damping), -2.0, 2.0) * _scale(point)
            there = equations.at(moved)
            if slopes.apart(there) < before:
                point, values, damping = moved, there, damping / 10
                break
            damping *= 6
        else:
            break
        if slopes.apart(values) > (1.0 - MIN_GAIN) * before:
            break
        slopes = equations.slopes(point, values)
    return _nicer(equations, point, slopes) if values.agree else None


def _nicer(equations: _Equations, point: Array, slopes: _Slopes) -> tuple[Array, list[int]]:
    """The solution, with those numbers that are not free as they are likely written."""
    free = slopes.free()
    nice = point.copy()
    for k in {*range(len(point))} - {*free}:
        near = min(NICE, key=lambda x: abs(x - abs(point[k])))
        if abs(near - abs(point[k])) <= _ROUGH * near:
            nice[k] = np.copysign(near, point[k])
    return (nice if equations.at(nice).agree else point), free


def _projected(asked: Asked, side: int, arguments: list[Any]) -> Array:
    """What a program's outputs come to, in no order: sums of each, with several weights."""
    program = asked.programs[side]
    made = program.run(arguments, asked.budget)
    program.coverage.settle(keep=False)
    sums: dict[tuple[int, ...], list[tuple[float, ...]]] = {}
    for array in made:
        sizes = without_ones(array.shape)
        if sizes in asked.uneven or array.dtype.kind != "f":
            continue
        weights = _weights(array.size)
        with np.errstate(all="ignore"):
            sums.setdefault(sizes, []).append(tuple((weights @ array.ravel()).tolist()))
    return np.array([x for shape in sorted(sums) for told in sorted(sums[shape]) for x in told])


@lru_cache(maxsize=256)
def _weights(size: int) -> Array:
    """Rows of weights for so many numbers: first equal ones, then some as they come."""
    chance = np.random.default_rng(size)
    rows = [np.ones(size), *(chance.normal(size=size) for _ in range(PROJECTIONS - 1))]
    return np.asarray(np.stack(rows) / max(size, 1) ** 0.5)
