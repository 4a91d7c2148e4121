"""Asking the values of two modules: their outputs at some arguments, for one pairing of inputs.

`Question` draws the arguments, keeps what A gives, and makes numbers smaller that overflow.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from xlagraph.evaluate.agreement import is_finite, is_number, moved_by, paired, varies
from xlagraph.evaluate.coverage import varying
from xlagraph.evaluate.domains import LARGEST
from xlagraph.evaluate.draws import (
    LARGE,
    POINTS,
    WITH_ZEROS,
    arguments_at,
    limited,
    rounded_otherwise,
    scaled_down,
    shrunk,
)
from xlagraph.evaluate.never import spread
from xlagraph.evaluate.pairing.handed_in import HIDDEN, SAME, Follows, Numbers

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from xlagraph.evaluate.budget import Budget
    from xlagraph.evaluate.domains import Assumed
    from xlagraph.evaluate.program import Program
    from xlagraph.evaluate.step import Array

    Limits = tuple[tuple[int, tuple[float, ...]], ...]
    """Numbers of inputs, each with what it takes alone."""

ROUNDINGS = 2
"""How often inputs are rounded otherwise to see what rounding does to the outputs."""
UNSTABLE = 1e-4
"""The part of an output that rounding moves where nothing is told by its values."""
SHRINKS = 2
"""How often large arguments are made less so, where values overflow."""
MOST = 0.9
"""The part of the outputs that has to change with the arguments."""


@dataclass(frozen=True, slots=True)
class HandedIn:
    """An input that is a number, and what it follows from."""

    side: int
    """0 of an input of A, 1 of B's."""
    number: int
    follows: Follows | None
    """None of one that fits others in any other way."""
    other: int | None
    """The input of the other module; None of a number that is one alone."""

    @property
    def bounds_nothing(self) -> bool:
        """Whether it is the largest number of all, or the least."""
        follows = self.follows
        return self.other is None and follows is not None and abs(follows.offset) >= LARGEST

    @property
    def hides(self) -> bool:
        """Whether it is what scores are where a mask hides them."""
        return self.other is None and self.follows == Follows(0, offset=HIDDEN)


@dataclass(frozen=True, slots=True)
class SameValues:
    """Two modules that give the same values for the same arguments."""

    parameters: tuple[int, ...]
    """For each input of A the number of B's; -1 of a number that A alone takes."""
    outputs: tuple[int, ...]
    """For each output of A the position of B's; -1 of one that A alone has."""
    points: int
    """At how many arguments both agree."""
    parts_at_zero: bool = False
    """Where arguments are exactly 0 they do not, as derivatives where a maximum has equal terms."""
    parts_at_large: bool = False
    """Where numbers are so large that one of them overflows they do not."""
    in_rows: bool = False
    """Whole numbers that pick rows picked some that there are: with others they do not agree."""
    assumed: tuple[tuple[int, tuple[float, ...]], ...] = ()
    """Inputs of A, with the numbers that they were given alone: with others they do not agree."""
    ones_first: bool = False
    """Those that are 0 or 1 had the ones first along each row."""
    more_in_b: tuple[int, ...] = ()
    """Outputs that B alone has."""
    handed_in: tuple[HandedIn, ...] = ()
    """Python numbers that are others than the other module's: with others they do not agree."""

    @property
    def more_in_a(self) -> tuple[int, ...]:
        """Outputs that A alone has."""
        return tuple(k for k, n in enumerate(self.outputs) if n < 0)

    @property
    def moved_outputs(self) -> int:
        """How many outputs stand at another position, if both have as many."""
        is_told = not (self.more_in_a or self.more_in_b)
        return sum(k != n for k, n in enumerate(self.outputs)) if is_told else 0


class Question:
    """Whether B's outputs are A's, for one assignment of the inputs after the other."""

    def __init__(
        self,
        programs: tuple[Program, Program],
        shapes: tuple[Sequence[str], Sequence[str]],
        preferred: Sequence[int],
        budget: Budget,
        assumed: Assumed,
        numbers: Numbers | None = None,
        *,
        is_turned: bool = False,
    ):
        self.numbers = numbers or Numbers()
        self.is_turned = is_turned
        self.programs = programs
        self.shapes = shapes
        self.preferred = preferred
        self.budget = budget
        self.assumed = assumed
        shapes_in = programs[0].parameters
        rows = assumed.rows
        domains = programs[0].domains.both_mark(programs[1].domains)
        self.drawn = [arguments_at(point, shapes_in, domains, rows) for point in range(POINTS)]
        self.known: list[list[Array]] = []
        """A's outputs at the points that were asked, with these limits."""
        self.noise: dict[int, list[float]] = {}
        """How far another rounding of the inputs moves A's outputs, at points asked so."""
        self.limited: Limits = ()
        self.parts_at_zero = False
        self.parts_at_large = False
        self.shrinks = 0
        self.scaled: set[int] = set()
        """Points whose numbers were made smaller."""

    def limits(self, assignment: Sequence[int]) -> Limits:
        """The inputs of A that are assumed to take some numbers alone, as their partners are."""
        known = self.assumed.limits
        told = (
            (k, known[0, k])
            for k, n in enumerate(assignment)
            if (0, k) in known and (1, n) in known
        )
        return tuple(told)

    def outputs(self, assignment: Sequence[int]) -> tuple[int, ...] | None:
        """For each output of A the position of B's that has its values, if all have one."""
        if self.limits(assignment) != self.limited:
            self.known, self.limited, self.noise = [], self.limits(assignment), {}
        theirs: list[list[Array]] = []
        found: tuple[int, ...] | None = None
        for point in range(POINTS):
            here = self._outputs_at(point, assignment, theirs)
            while here is None and self._make_smaller(point, theirs):
                here = self._outputs_at(point, assignment, theirs)
            self.parts_at_zero = here is None and point == WITH_ZEROS
            found = found if self.parts_at_zero else here
            if found is None or len(self.known[point]) != len(self.shapes[0]):
                return None
        if not self.parts_at_zero:
            self._see_zeros()
        return found if self._tells() else None

    def _see_zeros(self) -> None:
        """Takes in what A did where arguments are 0, by which nothing is seen unless both agree."""
        made = self.programs[0].run(self._given(WITH_ZEROS), self.budget, WITH_ZEROS + 1)
        self.programs[0].coverage.settle(keep=is_finite(made))

    def _outputs_at(
        self, point: int, assignment: Sequence[int], theirs: list[list[Array]]
    ) -> tuple[int, ...] | None:
        """The same, as far as this point tells; B's outputs there are added to `theirs`."""
        given = self._given(point)
        moved = dict(zip(assignment, given, strict=True))
        arguments = [moved.get(n, 0.0) for n in range(len(self.programs[1].parameters))]
        self.numbers.fill(1, arguments)
        self._ask_a(point, given)
        made = self.programs[1].run(arguments, self.budget, point + 1)
        theirs.append(made)
        here = self._paired(theirs)
        if here is None and self._add_noise(point, given):
            here = self._paired(theirs)
        agrees = here is not None or point != WITH_ZEROS
        self.programs[1].coverage.settle(keep=agrees and is_finite(made))
        return here

    def _make_smaller(self, point: int, theirs: list[list[Array]]) -> bool:
        """Whether numbers were so large that they tell little, and are less so from here on."""
        return self._shrink(theirs) if point == LARGE else self._scale_down(point, theirs)

    def _scale_down(self, point: int, theirs: list[list[Array]]) -> bool:
        """Whether values of one module overflowed; once a point."""
        if point in self.scaled or _are_finite((*self.known[point], *theirs[-1])):
            return False
        self.scaled.add(point)
        self.drawn[point] = [scaled_down(x) for x in self.drawn[point]]
        self.parts_at_large = True
        self.noise = {k: noise for k, noise in self.noise.items() if k < point}
        del self.known[point:]
        theirs.pop()
        return True

    def look_nearer(self, assignment: Sequence[int]) -> bool:
        """Whether all agrees as well for numbers that are less large, where these overflow."""
        if self.shrinks or _are_finite(self.known[LARGE]):
            return False
        self._draw_smaller()
        return self.outputs(assignment) is not None

    def _shrink(self, theirs: list[list[Array]]) -> bool:
        """Whether numbers were so large that values overflow, or that rounding counts.

        They are less so from here on.
        """
        overflows = not _are_finite((*self.known[LARGE], *theirs[-1]))
        if self.shrinks == SHRINKS or not (overflows or self._is_unstable()):
            return False
        self._draw_smaller()
        self.parts_at_large |= overflows
        theirs.pop()
        return True

    def _is_unstable(self) -> bool:
        """Whether another rounding of what A computes of the large arguments moves its outputs."""
        chance = np.random.default_rng(LARGE + 1)
        made = self.programs[0].run(self._given(LARGE), self.budget, LARGE + 1, chance)
        self.programs[0].coverage.settle(keep=False)
        return any(
            moved_by(x, y, 0.0) > UNSTABLE * float(np.abs(y).max(initial=0.0))
            for x, y in zip(made, self.known[LARGE], strict=True)
            if y.dtype.kind in "fc"
        )

    def _draw_smaller(self) -> None:
        self.shrinks += 1
        self.drawn[LARGE] = [shrunk(x) for x in self.drawn[LARGE]]
        del self.known[LARGE:]
        self.noise = {point: noise for point, noise in self.noise.items() if point < LARGE}

    def _paired(self, theirs: list[list[Array]]) -> tuple[int, ...] | None:
        """B's outputs for A's, at the points that were asked."""
        points = range(len(theirs))
        none = [0.0] * len(self.shapes[0])
        noise = [self.noise.get(point, none) for point in points]
        return paired(self.known[: len(theirs)], theirs, self.shapes, self.preferred, noise)

    def _add_noise(self, point: int, given: list[Array]) -> bool:
        """Asks how much of A's outputs is rounding, as where large terms cancel; once a point."""
        if point in self.noise:
            return False
        found = [0.0] * len(self.known[point])
        for way in range(ROUNDINGS):
            moved = [rounded_otherwise(x, (point, way, k)) for k, x in enumerate(given)]
            made = self.programs[0].run(moved, self.budget, point + 1)
            self.programs[0].coverage.settle(keep=False)
            found = [
                moved_by(x, y, before)
                for x, y, before in zip(made, self.known[point], found, strict=True)
            ]
        self.noise[point] = found
        return True

    def _given(self, point: int) -> list[Array]:
        limits, first = dict(self.limited), self.assumed.ones_first
        given = [
            limited(x, limits[k], ones_first=first) if k in limits else x
            for k, x in enumerate(self.drawn[point])
        ]
        self.numbers.draw(point, given)
        return given

    @property
    def in_order(self) -> tuple[Program, Program]:
        """The programs of A and of B."""
        one, other = self.programs
        return (other, one) if self.is_turned else (one, other)

    @property
    def fixed(self) -> tuple[set[int], set[int]]:
        """The inputs of A, and of B, that are one number alone, in all their forms."""
        found = []
        for program, numbers in zip(self.programs, self.numbers.fixed, strict=True):
            inputs = program.module.entry_computation.parameters
            found.append(set(spread(program.module, [inputs[k] for k in numbers])))
        one, other = found
        return (other, one) if self.is_turned else (one, other)

    def told(self, way: tuple[int, ...], outputs: tuple[int, ...]) -> SameValues:
        """The answer, of A and B."""
        at_zero, at_large, limits = self.parts_at_zero, self.parts_at_large, self.limits(way)
        numbers = tuple(self._handed_in(way))
        if self.is_turned:
            limits = tuple((way[k], values) for k, values in limits)
            way = _inverse(way, len(self.programs[1].parameters))
            outputs = _inverse(outputs, len(self.shapes[1]))
        gives = len(self.in_order[1].module.outputs)
        more = tuple(sorted({*range(gives)} - {*outputs}))
        return SameValues(
            *(way, outputs, POINTS - at_zero, at_zero, at_large, self.assumed.rows > 0),
            *(limits, self.assumed.ones_first and bool(limits), more, numbers),
        )

    def _handed_in(self, way: tuple[int, ...]) -> Iterator[HandedIn]:
        """The numbers that are others than their partners, or have none."""
        partners = {n: k for k, n in enumerate(way)}
        sides = (1, 0) if self.is_turned else (0, 1)
        told = zip(sides, self.numbers.fixed, self.numbers.fitting, strict=True)
        for side, fixed, fitting in told:
            for k, value in fixed.items():
                if isinstance(value, float):  # a whole number that one module alone takes is any
                    follows = None if k in fitting else Follows(0, offset=value)
                    yield HandedIn(side, k, follows, None)
        for n, guess in self.numbers.members.items():
            if guess.follows != SAME:
                yield HandedIn(sides[1], n, guess.follows, partners[n])
        for n, (member, follows) in self.numbers.surplus.items():
            yield HandedIn(sides[1], n, follows, partners[member])

    def _ask_a(self, point: int, given: list[Array]) -> None:
        if point == len(self.known):
            made = self.programs[0].run(given, self.budget, point + 1)
            self.programs[0].coverage.settle(keep=point != WITH_ZEROS and is_finite(made))
            self.known.append(made)

    def _tells(self) -> bool:
        """Whether the outputs are numbers, and nearly all that depend on inputs change with them.

        A gradient that cancels is always 0. All that are made discrete have to.
        """
        columns = [[values[k] for values in self.known] for k in range(len(self.shapes[0]))]
        module = self.programs[0].module
        reached = varying(module)
        changing = [
            varies(column)
            for column, output in zip(columns, module.outputs, strict=True)
            if output in reached
        ]
        discrete = self.programs[0].discrete_outputs
        do_vary = all(
            varies(column) for column, is_one in zip(columns, discrete, strict=True) if is_one
        )
        return do_vary and sum(changing) >= MOST * len(changing) and all(map(is_number, columns))


def _are_finite(arrays: Iterable[Array]) -> bool:
    """Whether no number overflows, and all are numbers."""
    return all(np.isfinite(x).all() for x in arrays)


def _inverse(places: Sequence[int], size: int) -> tuple[int, ...]:
    """For each of so many the place that has it, -1 where none has."""
    found = [-1] * size
    for k, n in enumerate(places):
        if n >= 0:
            found[n] = k
    return tuple(found)
