"""Whether two modules give the same values for the same arguments, but for rounding.

Rules that know how a computation may be written otherwise never end; this asks the values.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace
from itertools import islice
from typing import TYPE_CHECKING

import numpy as np

from xlagraph.errors import XlagraphError
from xlagraph.evaluate.agreement import is_finite, is_number, moved_by, paired, varies
from xlagraph.evaluate.budget import Budget
from xlagraph.evaluate.coverage import deep_forms_of, forms_of, varying
from xlagraph.evaluate.domains import (
    LARGEST,
    Assumed,
    assumptions,
    of_rows_and_masks,
)
from xlagraph.evaluate.draws import (
    LARGE,
    POINTS,
    WITH_ZEROS,
    arguments_at,
    limited,
    rounded_otherwise,
    shrunk,
)
from xlagraph.evaluate.handed_in import (
    MAX_PARTNERS,
    SAME,
    Follows,
    Numbers,
    are_handed_in,
    takes_more,
)
from xlagraph.evaluate.inputs import (
    MAX_ASSIGNMENTS,
    RESPONSES,
    Asked,
    assignments,
    by_response,
    fitting_numbers,
    input_shapes,
)
from xlagraph.evaluate.never import spread
from xlagraph.evaluate.program import Program
from xlagraph.evaluate.stated import annotations_agree, effects_agree, headers_agree
from xlagraph.hlo.shapes import read_shape

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from xlagraph.diff import Diff
    from xlagraph.evaluate.step import Array
    from xlagraph.graph import Module

    Limits = tuple[tuple[int, tuple[float, ...]], ...]
    """Numbers of inputs, each with what it takes alone."""

ROUNDINGS = 2
"""How often inputs are rounded otherwise to see what rounding does to the outputs."""
UNSTABLE = 1e-4
"""The part of an output that rounding moves where nothing is told by its values."""
SHRINKS = 2
"""How often large arguments are made less so, where values overflow."""
MAX_MORE = 8
"""Outputs that one module may have more than the other."""
FEW = 0.1
"""The part of the outputs that may be whole numbers or truth values made of floats, as a count of
right answers is: they say little of what they are made of."""
MOST = 0.9
"""The part of the outputs that has to change with the arguments."""

HANDED_ON = frozenset({"call", "get-tuple-element", "parameter", "tuple"})
"""What only hands on what is computed elsewhere, in a function perhaps."""


@dataclass(frozen=True, slots=True)
class HandedIn:
    """An input that is a number, and what it follows from."""

    side: int
    """0 of an input of A, 1 of B's."""
    number: int
    follows: Follows
    other: int | None
    """The input of the other module; None of a number that is one alone."""

    @property
    def bounds_nothing(self) -> bool:
        """Whether it is the largest number of all, or the least."""
        return self.other is None and abs(self.follows.offset) >= LARGEST


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


def same_values(diff: Diff) -> SameValues | None:
    """How inputs and outputs of two modules pair, if all outputs are equal but for rounding.

    None where they are not, or where it cannot be told: an instruction is not evaluated, the
    modules cost too much, an output is never a number, or always the same. What inputs are known
    to be by name holds.
    """
    try:
        return _same_values(diff)
    except XlagraphError:
        return None
    except Exception:  # noqa: BLE001 - it adds to an answer that is there, and must not take it away
        return None


def _same_values(diff: Diff) -> SameValues | None:
    a, b = diff.a, diff.b
    if not _take_alike(a, b) or a.gives_tuple != b.gives_tuple:
        return None
    shapes = output_shapes(a), output_shapes(b)
    counts = Counter(shapes[0]), Counter(shapes[1])
    more = (counts[0] - counts[1]).total(), (counts[1] - counts[0]).total()
    if (more[0] and more[1]) or max(more) > MAX_MORE or not annotations_agree(a, b):
        return None
    programs = Program(a), Program(b)
    budget = Budget()
    if POINTS * (programs[0].cost + programs[1].cost) > budget.operations:
        return None
    if not effects_agree(*programs):
        return None
    if any(sum(one.discrete_outputs) > FEW * len(one.discrete_outputs) for one in programs):
        return None
    asking = Budget(RESPONSES)
    if sorted(input_shapes(a)) == sorted(input_shapes(b)):
        for assumed in assumptions(diff):
            asked = _Question(programs, shapes, _preferred(diff), budget, assumed)
            ways = islice(assignments(diff, programs, assumed, asking), MAX_ASSIGNMENTS)
            if found := _answer(diff, asked, ways):
                return found
    return _with_numbers(diff, programs, shapes) if are_handed_in(a, b) else None


def _take_alike(a: Module, b: Module) -> bool:
    """Whether both take inputs of the same shapes, but for numbers."""
    taken = [sorted(shape for shape in input_shapes(m) if not shape.endswith("[]")) for m in (a, b)]
    return taken[0] == taken[1]


def _answer(diff: Diff, asked: _Question, ways: Iterable[tuple[int, ...]]) -> SameValues | None:
    """The first of these assignments of inputs with which all outputs agree."""
    for way in ways:
        outputs = asked.outputs(way)
        if outputs is None:
            continue
        both = {k: n for k, n in enumerate(outputs) if n >= 0}
        inputs = {k: n for k, n in enumerate(way) if n >= 0}
        one, other = asked.programs
        if headers_agree(one.module, other.module, inputs, both):
            is_seen = _is_seen(diff, asked) or (asked.look_nearer(way) and _is_seen(diff, asked))
            return asked.told(way, outputs) if is_seen else None
    return None


def _with_numbers(
    diff: Diff, programs: tuple[Program, Program], shapes: tuple[list[str], list[str]]
) -> SameValues | None:
    """The answer where numbers that are handed in are others in one module than in the other.

    Those of the module that takes more are sought.
    """
    is_turned = takes_more(diff.a, diff.b)
    if is_turned:
        programs, shapes = (programs[1], programs[0]), (shapes[1], shapes[0])
    every = [*of_rows_and_masks(*(program.module for program in programs))]
    asked = Asked(programs, Budget(RESPONSES), every[-1])
    for numbers in fitting_numbers(asked):
        ways = [*islice(by_response(replace(asked, numbers=numbers)), MAX_PARTNERS)]
        for assumed in every:
            own = _Question(
                *(programs, shapes, range(len(shapes[0])), Budget(), assumed, numbers),
                is_turned=is_turned,
            )
            if found := _answer(diff, own, ways):
                return found
    return None


def _is_seen(diff: Diff, asked: _Question) -> bool:
    """Whether what differs in writing was seen to count at some of the arguments.

    What was not has to stand in both: bounds that nothing exceeds, of numbers that both have. Those
    that are handed in are told. A position in a ring has to be seen beyond its end, wherever it is.
    """
    a, b = asked.in_order
    if not all(one.coverage.wraps_all(one.module) for one in (a, b)):
        return False
    in_rows = asked.assumed.rows > 0
    sides = (a, b, diff.differing_in_a), (b, a, diff.differing_in_b)
    for (own, other, changed), fixed in zip(sides, asked.fixed, strict=True):
        cut = own.coverage.cut_off(own.module, changed, in_rows=in_rows)
        every = range(len(other.module))
        if not deep_forms_of(own.module, cut) <= deep_forms_of(other.module, every):
            return False
        unseen = own.coverage.unseen(own.module, changed, in_rows=in_rows) - fixed
        left = {i for i in unseen if own.module.opcodes[i] not in HANDED_ON}
        if left:
            module = other.module
            theirs = other.coverage.unseen(module, every, in_rows=in_rows)
            numbers = (i for i, opcode in enumerate(module.opcodes) if opcode == "constant")
            if not forms_of(own.module, left) <= forms_of(module, {*theirs, *numbers}):
                return False
    return True


def output_shapes(module: Module) -> list[str]:
    """The shapes of the outputs, without layouts."""
    return [read_shape(module.shapes[i]).without_layout() for i in module.outputs]


def _preferred(diff: Diff) -> list[int]:
    partners = {slot.a: slot.b for slot in diff.outputs if slot.b is not None}
    return [partners.get(k, k) for k in range(len(diff.a.outputs))]


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


# -- asking the values -----------------------------------------------------------------------


class _Question:
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
        domains = programs[0].domains
        self.drawn = [arguments_at(point, shapes_in, domains, rows) for point in range(POINTS)]
        self.known: list[list[Array]] = []
        """A's outputs at the points that were asked, with these limits."""
        self.noise: dict[int, list[float]] = {}
        """How far another rounding of the inputs moves A's outputs, at points asked so."""
        self.limited: Limits = ()
        self.parts_at_zero = False
        self.parts_at_large = False
        self.shrinks = 0

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
            while here is None and point == LARGE and self._shrink(theirs):
                here = self._outputs_at(point, assignment, theirs)
            self.parts_at_zero = here is None and point == WITH_ZEROS
            found = found if self.parts_at_zero else here
            if found is None or len(self.known[point]) != len(self.shapes[0]):
                return None
        return found if self._tells() else None

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
        self.programs[1].coverage.settle(keep=is_finite(made))
        theirs.append(made)
        here = self._paired(theirs)
        if here is None and self._add_noise(point, given):
            here = self._paired(theirs)
        return here

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
        overflows = not _are_finite((*self.known[-1], *theirs[-1]))
        if self.shrinks == SHRINKS or not (overflows or self._is_unstable()):
            return False
        self._draw_smaller()
        self.parts_at_large |= overflows
        theirs.pop()
        return True

    def _is_unstable(self) -> bool:
        """Whether another rounding of what A computes of the last arguments moves its outputs."""
        chance = np.random.default_rng(len(self.known))
        given = self._given(len(self.known) - 1)
        made = self.programs[0].run(given, self.budget, len(self.known), chance)
        self.programs[0].coverage.settle(keep=False)
        return any(
            moved_by(x, y, 0.0) > UNSTABLE * float(np.abs(y).max(initial=0.0))
            for x, y in zip(made, self.known[-1], strict=True)
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
        for side, fixed in zip(sides, self.numbers.fixed, strict=True):
            for k, value in fixed.items():
                if isinstance(value, float):  # a whole number that one module alone takes is any
                    yield HandedIn(side, k, Follows(0, offset=value), None)
        for n, guess in self.numbers.members.items():
            if guess.follows != SAME:
                yield HandedIn(sides[1], n, guess.follows, partners[n])
        for n, (member, follows) in self.numbers.surplus.items():
            yield HandedIn(sides[1], n, follows, partners[member])

    def _ask_a(self, point: int, given: list[Array]) -> None:
        if point == len(self.known):
            made = self.programs[0].run(given, self.budget, point + 1)
            self.programs[0].coverage.settle(keep=is_finite(made))
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
