"""Whether two modules give the same values for the same arguments, but for rounding.

Rules that know how a computation may be written otherwise never end; this asks the values.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING

from xlagraph.errors import XlagraphError
from xlagraph.evaluate.agreement import is_finite, is_number, paired, varies
from xlagraph.evaluate.budget import Budget
from xlagraph.evaluate.coverage import forms_of, varying
from xlagraph.evaluate.domains import assumptions, positive_inputs
from xlagraph.evaluate.draws import POINTS, WITH_ZEROS, arguments_at, limited
from xlagraph.evaluate.inputs import MAX_ASSIGNMENTS, RESPONSES, assignments, input_shapes
from xlagraph.evaluate.program import Program
from xlagraph.evaluate.stated import annotations_agree, effects_agree, headers_agree
from xlagraph.hlo.shapes import read_shape

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from xlagraph.diff import Diff
    from xlagraph.evaluate.domains import Assumed
    from xlagraph.evaluate.step import Array
    from xlagraph.graph import Module

    Limits = tuple[tuple[int, tuple[float, ...]], ...]
    """Numbers of inputs, each with what it takes alone."""

MAX_MORE = 4
"""Outputs that one module may have more than the other."""
FEW = 0.1
"""The part of the outputs that may be whole numbers or truth values made of floats, as a count of
right answers is: they say little of what they are made of."""
MOST = 0.9
"""The part of the outputs that has to change with the arguments."""


@dataclass(frozen=True, slots=True)
class SameValues:
    """Two modules that give the same values for the same arguments."""

    parameters: tuple[int, ...]
    """For each input of A the number of B's."""
    outputs: tuple[int, ...]
    """For each output of A the position of B's; -1 of one that A alone has."""
    points: int
    """At how many arguments both agree."""
    parts_at_zero: bool = False
    """Where arguments are exactly 0 they do not, as derivatives where a maximum has equal terms."""
    in_rows: bool = False
    """Whole numbers that pick rows picked some that there are: with others they do not agree."""
    assumed: tuple[tuple[int, tuple[float, ...]], ...] = ()
    """Inputs of A, with the numbers that they were given alone: with others they do not agree."""
    more_in_b: tuple[int, ...] = ()
    """Outputs that B alone has."""

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
    if sorted(input_shapes(a)) != sorted(input_shapes(b)) or a.gives_tuple != b.gives_tuple:
        return None
    shapes = _output_shapes(a), _output_shapes(b)
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
    for assumed in assumptions(diff):
        asked = _Question(programs, shapes, _preferred(diff), budget, assumed)
        ways = islice(assignments(diff, programs, assumed, asking), MAX_ASSIGNMENTS)
        if found := _answer(diff, asked, ways):
            return found
    return None


def _answer(diff: Diff, asked: _Question, ways: Iterable[tuple[int, ...]]) -> SameValues | None:
    """The first of these assignments of inputs with which all outputs agree."""
    for way in ways:
        outputs = asked.outputs(way)
        if outputs is None:
            continue
        both = {k: n for k, n in enumerate(outputs) if n >= 0}
        if headers_agree(diff.a, diff.b, dict(enumerate(way)), both):
            parts = asked.parts_at_zero
            more_in_b = tuple(sorted({*range(len(asked.shapes[1]))} - {*both.values()}))
            rows, limits = asked.assumed.rows, asked.limits(way)
            found = SameValues(way, outputs, POINTS - parts, parts, rows > 0, limits, more_in_b)
            return found if _is_seen(diff, *asked.programs, in_rows=rows > 0) else None
    return None


def _is_seen(diff: Diff, a: Program, b: Program, *, in_rows: bool) -> bool:
    """Whether what differs in writing was seen to count at some of the arguments.

    What was not has to stand in both: bounds that nothing exceeds, in the same numbers.
    """
    mine = {*diff.removed, *(change.a for change in diff.changes)}
    theirs = {*diff.added, *(change.b for change in diff.changes)}
    left = a.coverage.unseen(diff.a, mine, in_rows=in_rows)
    right = b.coverage.unseen(diff.b, theirs, in_rows=in_rows)
    return forms_of(diff.a, left) == forms_of(diff.b, right)


def _output_shapes(module: Module) -> list[str]:
    return [read_shape(module.shapes[i]).without_layout() for i in module.outputs]


def _preferred(diff: Diff) -> list[int]:
    partners = {slot.a: slot.b for slot in diff.outputs if slot.b is not None}
    return [partners.get(k, k) for k in range(len(diff.a.outputs))]


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
    ):
        self.programs = programs
        self.shapes = shapes
        self.preferred = preferred
        self.budget = budget
        self.assumed = assumed
        positive = positive_inputs(programs[0].module)
        shapes_in = programs[0].parameters
        rows = assumed.rows
        self.drawn = [arguments_at(point, shapes_in, positive, rows) for point in range(POINTS)]
        self.known: list[list[Array]] = []
        """A's outputs at the points that were asked, with these limits."""
        self.limited: Limits = ()
        self.parts_at_zero = False

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
            self.known, self.limited = [], self.limits(assignment)
        theirs: list[list[Array]] = []
        found: tuple[int, ...] | None = None
        for point in range(POINTS):
            given = self._given(point)
            moved = dict(zip(assignment, given, strict=True))
            arguments = [moved[n] for n in range(len(moved))]
            mine = self._of_a(point, given)
            made = self.programs[1].run(arguments, self.budget, point + 1)
            self.programs[1].coverage.settle(keep=is_finite(made))
            theirs.append(made)
            here = paired(self.known[: point + 1], theirs, self.shapes, self.preferred)
            self.parts_at_zero = here is None and point == WITH_ZEROS
            found = found if self.parts_at_zero else here
            if found is None or len(mine) != len(self.shapes[0]):
                return None
        return found if self._tells() else None

    def _given(self, point: int) -> list[Array]:
        limits = dict(self.limited)
        return [
            limited(x, limits[k]) if k in limits else x for k, x in enumerate(self.drawn[point])
        ]

    def _of_a(self, point: int, given: list[Array]) -> list[Array]:
        if point == len(self.known):
            made = self.programs[0].run(given, self.budget, point + 1)
            self.programs[0].coverage.settle(keep=is_finite(made))
            self.known.append(made)
        return self.known[point]

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
