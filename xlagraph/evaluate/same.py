"""Whether two modules give the same values for the same arguments, but for rounding.

Rules that know how a computation may be written otherwise never end; this asks the values.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from itertools import chain, islice, permutations, product
from math import factorial, prod
from typing import TYPE_CHECKING

from xlagraph.errors import XlagraphError
from xlagraph.evaluate.agreement import is_finite, paired, tells
from xlagraph.evaluate.budget import Budget
from xlagraph.evaluate.draws import POINTS, arguments_at
from xlagraph.evaluate.program import Program
from xlagraph.evaluate.signs import positive_inputs
from xlagraph.evaluate.stated import annotations_agree, effects_agree, headers_agree
from xlagraph.hlo.shapes import read_shape

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from xlagraph.diff import Diff
    from xlagraph.evaluate.step import Array
    from xlagraph.graph import Module

MAX_ASSIGNMENTS = 24
"""Ways to pair the inputs that are tried."""


@dataclass(frozen=True, slots=True)
class SameValues:
    """Two modules that give the same values for the same arguments."""

    parameters: tuple[int, ...]
    """For each input of A the number of B's."""
    outputs: tuple[int, ...]
    """For each output of A the position of B's."""
    points: int
    """At how many arguments both were evaluated."""

    @property
    def moved_outputs(self) -> int:
        """How many outputs stand at another position."""
        return sum(k != n for k, n in enumerate(self.outputs))


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
    if _input_shapes(a, sort=True) != _input_shapes(b, sort=True) or a.gives_tuple != b.gives_tuple:
        return None
    shapes = _output_shapes(a), _output_shapes(b)
    if Counter(shapes[0]) != Counter(shapes[1]) or not annotations_agree(a, b):
        return None
    programs = Program(a), Program(b)
    budget = Budget()
    if POINTS * (programs[0].cost + programs[1].cost) > budget.operations:
        return None
    if not effects_agree(*programs):
        return None
    if any(programs[0].discrete_outputs) or any(programs[1].discrete_outputs):
        return None
    asked = _Question(programs, shapes, _preferred(diff), budget)
    for assignment in islice(_assignments(diff), MAX_ASSIGNMENTS):
        outputs = asked.outputs(assignment)
        if outputs and headers_agree(a, b, dict(enumerate(assignment)), dict(enumerate(outputs))):
            is_seen = _is_seen(diff, *programs)
            return SameValues(tuple(assignment), outputs, POINTS) if is_seen else None
    return None


def _is_seen(diff: Diff, a: Program, b: Program) -> bool:
    """Whether what differs in writing was seen to count at some of the arguments."""
    mine = {*diff.removed, *(change.a for change in diff.changes)}
    theirs = {*diff.added, *(change.b for change in diff.changes)}
    return a.coverage.counts(diff.a, mine) and b.coverage.counts(diff.b, theirs)


def _input_shapes(module: Module, *, sort: bool = False) -> list[str]:
    entry = module.entry_computation
    found = [read_shape(module.shapes[p]).without_layout() for p in entry.parameters]
    return sorted(found) if sort else found


def _output_shapes(module: Module) -> list[str]:
    return [read_shape(module.shapes[i]).without_layout() for i in module.outputs]


def _preferred(diff: Diff) -> list[int]:
    partners = {slot.a: slot.b for slot in diff.outputs if slot.b is not None}
    return [partners.get(k, k) for k in range(len(diff.a.outputs))]


# -- which inputs belong together ------------------------------------------------------------


def _assignments(diff: Diff) -> Iterator[tuple[int, ...]]:
    """For each input of A one of B, in ways that are the less likely the later they come."""
    shapes_a, shapes_b = _input_shapes(diff.a), _input_shapes(diff.b)
    paired = {
        slot.a: slot.b
        for slot in diff.parameters
        if slot.a is not None and slot.b is not None and shapes_a[slot.a] == shapes_b[slot.b]
    }
    ways = [_completed(shapes_a, shapes_b, paired)]
    if not any(known.inputs for known in diff.match.known):
        in_place = {k: k for k, shape in enumerate(shapes_a) if shapes_b[k] == shape}
        ways.append(_completed(shapes_a, shapes_b, in_place))
        if prod(factorial(n) for n in Counter(shapes_a).values()) <= MAX_ASSIGNMENTS:
            ways.append(_completed(shapes_a, shapes_b, {}))
    return iter(dict.fromkeys(chain.from_iterable(ways)))


def _completed(
    shapes_a: Sequence[str], shapes_b: Sequence[str], known: Mapping[int, int]
) -> Iterator[tuple[int, ...]]:
    """The assignments that keep what is paired; the others go by shape, first in order."""
    taken = set(known.values())
    groups: list[tuple[list[int], list[int]]] = []
    for shape in dict.fromkeys(shapes_a):
        mine = [k for k, one in enumerate(shapes_a) if one == shape and k not in known]
        theirs = [n for n, one in enumerate(shapes_b) if one == shape and n not in taken]
        if mine:
            groups.append((mine, theirs))
    ways = product(*(islice(permutations(theirs), MAX_ASSIGNMENTS) for _, theirs in groups))
    for way in islice(ways, MAX_ASSIGNMENTS):
        found = dict(known)
        for (mine, _), chosen in zip(groups, way, strict=True):
            found |= dict(zip(mine, chosen, strict=True))
        yield tuple(found[k] for k in range(len(shapes_a)))


# -- asking the values -----------------------------------------------------------------------


class _Question:
    """Whether B's outputs are A's, for one assignment of the inputs after the other."""

    def __init__(
        self,
        programs: tuple[Program, Program],
        shapes: tuple[Sequence[str], Sequence[str]],
        preferred: Sequence[int],
        budget: Budget,
    ):
        self.programs = programs
        self.shapes = shapes
        self.preferred = preferred
        self.budget = budget
        positive = positive_inputs(programs[0].module)
        shapes_in = programs[0].parameters
        self.given = [arguments_at(point, shapes_in, positive) for point in range(POINTS)]
        self.known: list[list[Array]] = []
        """A's outputs at the points that were asked."""

    def outputs(self, assignment: Sequence[int]) -> tuple[int, ...] | None:
        """For each output of A the position of B's that has its values, if all have one."""
        theirs: list[list[Array]] = []
        found: tuple[int, ...] | None = None
        for point in range(POINTS):
            moved = dict(zip(assignment, self.given[point], strict=True))
            arguments = [moved[n] for n in range(len(moved))]
            mine = self._of_a(point)
            made = self.programs[1].run(arguments, self.budget, point + 1)
            self.programs[1].coverage.settle(keep=is_finite(made))
            theirs.append(made)
            found = paired(self.known[: point + 1], theirs, self.shapes, self.preferred)
            if found is None or len(mine) != len(self.shapes[0]):
                return None
        return found if self._tells() else None

    def _of_a(self, point: int) -> list[Array]:
        if point == len(self.known):
            made = self.programs[0].run(self.given[point], self.budget, point + 1)
            self.programs[0].coverage.settle(keep=is_finite(made))
            self.known.append(made)
        return self.known[point]

    def _tells(self) -> bool:
        """Whether the values of every output tell anything."""
        depends = self.programs[0].dependent_outputs
        return all(
            tells([values[k] for values in self.known], depends=depends[k])
            for k in range(len(self.shapes[0]))
        )
