"""Which inputs of two modules belong together, in the ways that are tried.

The comparison's pairs come first, then places. Where neither gives the same values, inputs of one
shape are told apart by what they do: all of them get the same array, and then one alone another
one. The outputs of both modules respond alike where the right input changed, whatever the inputs
are called and wherever they stand. What is told apart by then has arrays of its own from then on,
as in the refinement of colours by which graphs are compared.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from functools import cached_property, partial
from itertools import chain, islice, permutations, product
from math import factorial, prod
from operator import itemgetter
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from xlagraph.evaluate.agreement import without_ones
from xlagraph.evaluate.budget import MAX_OPERATIONS
from xlagraph.evaluate.draws import argument_like, limited
from xlagraph.evaluate.pairing.handed_in import Numbers, Search
from xlagraph.hlo.shapes import read_shape

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Mapping, Sequence

    from xlagraph.diff import Diff
    from xlagraph.evaluate.budget import Budget
    from xlagraph.evaluate.domains import Assumed
    from xlagraph.evaluate.pairing.handed_in import Guess
    from xlagraph.evaluate.program import Program
    from xlagraph.evaluate.step import Array
    from xlagraph.graph import Module

    _Apart = tuple[int, Mapping[int, Guess]]
    """A guess, behind the number of outputs that come to something else with it."""

MAX_ASSIGNMENTS = 24
"""Ways to pair the inputs that are tried."""
MAX_FIRST = 6
"""How many of these complete the comparison's pairs."""
RESPONSES = 4 * MAX_OPERATIONS
"""What asking the inputs one by one may cost."""
FAR = 0.9
"""Where a larger part of the outputs comes to something else a guess is near to nothing."""
_CLOSE = 1e-6
_MOVED = 1e-5
"""How far the outputs' moves may be apart, relative to them: numbers may be rounded otherwise."""
_ROUNDING = 1e-12
"""What rounding may move, relative to what the outputs come to."""
_NOTHING = 1e-9
"""What is left of sums that cancel."""


def input_shapes(module: Module) -> list[str]:
    """The shapes of the entry's parameters, without layouts."""
    entry = module.entry_computation
    return [read_shape(module.shapes[p]).without_layout() for p in entry.parameters]


def assignments(
    diff: Diff, programs: tuple[Program, Program], assumed: Assumed, budget: Budget
) -> Iterator[tuple[int, ...]]:
    """For each input of A one of B, in ways that are the less likely the later they come.

    `budget`: what asking the inputs one by one may cost.

    Raises:
        NotEvaluatedError: asking the inputs one by one costs too much.
    """
    shapes_a, shapes_b = input_shapes(diff.a), input_shapes(diff.b)
    ways: list[Iterator[tuple[int, ...]]] = [likely_assignments(diff)]
    if not any(known.inputs for known in diff.match.known):
        if prod(factorial(n) for n in Counter(shapes_a).values()) <= MAX_ASSIGNMENTS:
            ways.append(_completed(shapes_a, shapes_b, {}))
        else:
            ways.append(by_response(Asked(programs, budget, assumed)))
    return _once(chain.from_iterable(ways))


def likely_assignments(diff: Diff) -> Iterator[tuple[int, ...]]:
    """The first of them: each input is the one that it is paired with, or that at its place."""
    shapes_a, shapes_b = input_shapes(diff.a), input_shapes(diff.b)
    matched = {
        slot.a: slot.b
        for slot in diff.parameters
        if slot.a is not None and slot.b is not None and shapes_a[slot.a] == shapes_b[slot.b]
    }
    ways: list[Iterator[tuple[int, ...]]] = [
        islice(_completed(shapes_a, shapes_b, matched), MAX_FIRST)
    ]
    if not any(known.inputs for known in diff.match.known):
        in_place = {k: k for k, shape in enumerate(shapes_a) if shapes_b[k] == shape}
        ways.append(islice(_completed(shapes_a, shapes_b, in_place), 1))
    return _once(chain.from_iterable(ways))


def _once(ways: Iterator[tuple[int, ...]]) -> Iterator[tuple[int, ...]]:
    known = set()
    for way in ways:
        if way not in known:
            known.add(way)
            yield way


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


class _Input(NamedTuple):
    """An input of one side."""

    side: int
    number: int


@dataclass(frozen=True)
class Asked:
    """The programs whose inputs are asked, and what that may cost."""

    programs: tuple[Program, Program]
    budget: Budget
    assumed: Assumed
    """What some inputs take alone."""
    numbers: Numbers = field(default_factory=Numbers)
    """What numbers are that do not pair by their shapes."""

    @cached_property
    def uneven(self) -> frozenset[tuple[int, ...]]:
        """The sizes of outputs of which one side has more: these are not asked."""
        modules = [program.module for program in self.programs]
        one, other = (
            Counter(without_ones(read_shape(m.shapes[i]).dimensions) for i in m.outputs)
            for m in modules
        )
        return frozenset({*(one - other), *(other - one)})

    def classes(self) -> dict[_Input, int]:
        """The inputs that have a partner, those of one shape, and numbers that do alike, in one."""
        found: dict[_Input, int] = {}
        labels: dict[str | int, int] = {}
        for side, program in enumerate(self.programs):
            for number, shape in enumerate(input_shapes(program.module)):
                label = self.numbers.label(side, number)
                if label != 0:
                    key = label or shape
                    found[_Input(side, number)] = labels.setdefault(key, len(labels))
        return found


def fitting_numbers(asked: Asked) -> Iterator[Numbers]:
    """What the numbers of the second program may be, with which its outputs come to the first's.

    Those of the first are drawn; all other inputs of a shape are equal.
    """
    first, second = (program.module for program in asked.programs)
    search = Search(first, second)
    if not search.is_asked:
        return
    yield from _fitting(asked, search)
    for sizes in search.sized():
        yield from _fitting(asked, Search(first, second, sizes))


def _fitting(asked: Asked, search: Search) -> Iterator[Numbers]:
    fixed = search.given()
    target = _answers(asked, 0, fixed)(fixed)
    made = _answers(asked, 1, search.sought)

    def apart(guess: Mapping[int, Guess]) -> int:
        return _apart(made(search.values(guess)), target)

    nearest: _Apart = (len(target) + 1, {})
    for guess in search.guesses():
        number = apart(guess)
        if not number:
            yield from search.told(guess)
        nearest = min(nearest, (number, guess), key=itemgetter(0))
    if 0 < nearest[0] <= FAR * len(target) and (found := _nearer(search, nearest, apart)):
        yield from search.told(found)


def _nearer(
    search: Search, nearest: _Apart, apart: Callable[[Mapping[int, Guess]], int]
) -> Mapping[int, Guess] | None:
    """A guess with which all outputs come to the same, from one with which some do not.

    One number after the other is changed, as long as that brings more outputs to the same.
    """
    before = nearest[0] + 1
    while 0 < nearest[0] < before:
        before = nearest[0]
        for others in search.changes(nearest[1]):
            changed = [(apart(one), one) for one in others]
            nearest = min(nearest, *changed, key=itemgetter(0)) if changed else nearest
    return None if nearest[0] else nearest[1]


def _apart(one: Array, other: Array) -> int:
    """In how many numbers two answers differ."""
    if one.shape != other.shape:
        return max(one.size, other.size)
    return int((~np.isclose(one, other, rtol=_CLOSE, atol=_NOTHING)).sum())


def _answers(
    asked: Asked, side: int, numbers: Collection[int]
) -> Callable[[Mapping[int, float]], Array]:
    """What a program's outputs come to for these numbers, with one array for all of a shape."""
    drawn = arguments_of(asked, side, numbers)

    def made(given: Mapping[int, float]) -> Array:
        return _told_of(asked, side, [given.get(k, x) for k, x in enumerate(drawn)])

    return made


def arguments_of(asked: Asked, side: int, numbers: Collection[int], point: int = 0) -> list[Any]:
    """A program's arguments, with one array for all of a shape, and anything for these numbers.

    `point`: each has arrays of its own.
    """
    shapes = [input_shapes(program.module) for program in asked.programs]
    every = sorted({*shapes[0]})
    labels = {shape: k + point * len(every) for k, shape in enumerate(every)}
    others = ((k, shape) for k, shape in enumerate(shapes[side]) if k not in numbers)
    return _arguments(asked, {_Input(side, k): labels[shape] for k, shape in others}, side)


def by_response(asked: Asked) -> Iterator[tuple[int, ...]]:
    """The assignments of inputs to which the outputs respond alike; none where no such is seen.

    Of an input of A that has no partner it is -1.
    """
    classes = asked.classes()
    both = [response(asked, classes, side) for side in range(len(asked.programs))]
    sides = Counter((label, one.side) for one, label in classes.items())
    is_even = all(sides[label, 0] == sides[label, 1] for label, _ in sides)
    if not is_even or not are_alike(*both):
        return  # whichever inputs belong together
    for found in _told_apart(asked, classes):
        theirs = {label: number for (side, number), label in found.items() if side}
        own = range(len(asked.programs[0].parameters))
        yield tuple(theirs[found[_Input(0, k)]] if _Input(0, k) in found else -1 for k in own)


def _told_apart(asked: Asked, classes: Mapping[_Input, int]) -> Iterator[Mapping[_Input, int]]:
    """The classes, split until each has one input of each side.

    Of inputs that respond alike one of A is set beside each of B's in turn, and the rest is split
    again: weights and their momentum, for one, respond alike until one of them has its place.
    """
    before = 0
    while before < len({*classes.values()}):
        before = len({*classes.values()})
        finer = _refined(asked, classes)
        if finer is None:
            return
        if len({*finer.values()}) == before:  # what moves little may yet move differently
            finer = _refined(asked, classes, by_moves=True) or finer
        classes = finer
    sizes = Counter(classes.values())
    chosen = next(
        (one for one, label in classes.items() if sizes[label] > len(asked.programs)), None
    )
    if chosen is None:
        yield classes
        return
    fresh = max(classes.values()) + 1
    for one, label in classes.items():
        if one.side and label == classes[chosen]:
            yield from _told_apart(asked, {**classes, chosen: fresh, one: fresh})


def _refined(
    asked: Asked, classes: Mapping[_Input, int], *, by_moves: bool = False
) -> dict[_Input, int] | None:
    """The classes, split by how outputs respond; None where the two sides do not agree.

    `by_moves`: by how far they move alone, which rounding may hide.
    """
    sizes = Counter(classes.values())
    found: dict[_Input, int] = {}
    seen: dict[int, list[tuple[int, Array]]] = {}
    values = [_values(asked, side, _arguments(asked, classes, side)) for side in (0, 1)]
    before = [_sums(asked, k, values[k]) if by_moves else np.zeros(()) for k in (0, 1)]
    is_alike = (
        partial(_move_alike, rounding=_ROUNDING * np.abs(before[0])) if by_moves else are_alike
    )
    for one, label in classes.items():
        if sizes[label] <= len(asked.programs):  # one of each side
            found[one] = label
            continue
        changed = _arguments(asked, classes, one.side, one.number)
        made = _values(asked, one.side, changed, values[one.side])
        told = _sums(asked, one.side, made) - before[one.side]
        known = seen.setdefault(label, [])
        number = next((n for n, other in known if is_alike(told, other)), None)
        if number is None:
            number = len(classes) * (label + 1) + len(known)
            known.append((number, told))
        found[one] = number
    both = Counter((label, one.side) for one, label in found.items())
    if any(both[label, 0] != both[label, 1] for label, _ in both):
        return None
    names = {label: k for k, label in enumerate(dict.fromkeys(found.values()))}
    return {one: names[label] for one, label in found.items()}


def response(asked: Asked, classes: Mapping[_Input, int], side: int) -> Array:
    """What the outputs come to with one array for all inputs of a class, in no order."""
    return _told_of(asked, side, _arguments(asked, classes, side))


def _arguments(
    asked: Asked, classes: Mapping[_Input, int], side: int, changed: int = -1
) -> list[Any]:
    """One array for all inputs of a class, but for the one that is changed; and the numbers."""
    rows = asked.assumed.rows
    arguments: list[Any] = [
        argument_like(shape, classes[here], is_other=k == changed, rows=rows)
        if here in classes
        else 0.0
        for k, shape in enumerate(asked.programs[side].parameters)
        for here in [_Input(side, k)]
    ]
    asked.numbers.fill(side, arguments)
    for (one, k), numbers in asked.assumed.limits.items():
        if one == side:
            first = asked.assumed.ones_first
            arguments[k] = limited(arguments[k], numbers, ones_first=first)
    return arguments


def _told_of(asked: Asked, side: int, arguments: list[Any]) -> Array:
    """What a program's outputs come to, in no order: their sums, and those of their squares."""
    program = asked.programs[side]
    made = program.run(arguments, asked.budget)
    program.coverage.settle(keep=False)
    return _summed(asked, made)


def _values(
    asked: Asked, side: int, arguments: Sequence[Any], since: Mapping[int, Any] | None = None
) -> Mapping[int, Any]:
    """What a program's instructions come to, from what they came to before, where that stays."""
    program = asked.programs[side]
    made = program.values(arguments, asked.budget, since)
    program.coverage.settle(keep=False)
    return made


def _sums(asked: Asked, side: int, values: Mapping[int, Any]) -> Array:
    return _summed(asked, asked.programs[side].outputs_of(values))


def _summed(asked: Asked, made: Sequence[Array]) -> Array:
    """The sums of all outputs, and those of their squares, in no order."""
    sums: dict[tuple[int, ...], list[tuple[float, float]]] = {}
    for array in made:
        sizes = without_ones(array.shape)
        if sizes in asked.uneven:
            continue
        values = np.nan_to_num(np.abs(array).astype(float), posinf=0.0)
        sums.setdefault(sizes, []).append((float(values.sum()), float((values**2).sum())))
    told = [
        part
        for shape in sorted(sums)
        for column in zip(*sums[shape], strict=True)
        for part in sorted(column)
    ]
    return np.array(told)


def _move_alike(one: Array, other: Array, rounding: Array) -> bool:
    """Whether what the outputs come to moves by as much, where they are large beside that too."""
    return bool((np.abs(one - other) <= _MOVED * np.abs(other) + rounding).all())


def are_alike(one: Array, other: Array) -> bool:
    """Whether the outputs of both come to the same."""
    return not _apart(one, other)
