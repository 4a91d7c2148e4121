"""Which inputs of two modules belong together, in the ways that are tried.

The comparison's pairs come first, then places. Where neither gives the same values, inputs of one
shape are told apart by what they do: all of them get the same array, and then one alone another
one. The outputs of both modules respond alike where the right input changed, whatever the inputs
are called and wherever they stand. What is told apart by then has arrays of its own from then on,
as in the refinement of colours by which graphs are compared.
"""

from __future__ import annotations

from collections import Counter
from itertools import chain, islice, permutations, product
from math import factorial, prod
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from xlagraph.evaluate.budget import MAX_OPERATIONS
from xlagraph.evaluate.draws import argument_like, limited
from xlagraph.hlo.shapes import read_shape

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from xlagraph.diff import Diff
    from xlagraph.evaluate.budget import Budget
    from xlagraph.evaluate.domains import Assumed
    from xlagraph.evaluate.program import Program
    from xlagraph.evaluate.step import Array
    from xlagraph.graph import Module

MAX_ASSIGNMENTS = 24
"""Ways to pair the inputs that are tried."""
RESPONSES = 4 * MAX_OPERATIONS
"""What asking the inputs one by one may cost."""
_CLOSE = 1e-6
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
    matched = {
        slot.a: slot.b
        for slot in diff.parameters
        if slot.a is not None and slot.b is not None and shapes_a[slot.a] == shapes_b[slot.b]
    }
    ways = [_completed(shapes_a, shapes_b, matched)]
    if not any(known.inputs for known in diff.match.known):
        in_place = {k: k for k, shape in enumerate(shapes_a) if shapes_b[k] == shape}
        ways.append(islice(_completed(shapes_a, shapes_b, in_place), 1))
        if prod(factorial(n) for n in Counter(shapes_a).values()) <= MAX_ASSIGNMENTS:
            ways.append(_completed(shapes_a, shapes_b, {}))
        else:
            ways.append(_by_response(programs, shapes_a, shapes_b, assumed, budget))
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


class _Asked(NamedTuple):
    """The programs whose inputs are asked, and what that may cost."""

    programs: tuple[Program, Program]
    budget: Budget
    uneven: frozenset[tuple[int, ...]]
    """The sizes of outputs of which one side has more: these are not asked."""
    assumed: Assumed
    """What some inputs take alone."""


def _by_response(
    programs: tuple[Program, Program],
    shapes_a: Sequence[str],
    shapes_b: Sequence[str],
    assumed: Assumed,
    budget: Budget,
) -> Iterator[tuple[int, ...]]:
    """The assignments of inputs to which the outputs respond alike; none where no such is seen."""
    classes: dict[_Input, int] = {}
    labels: dict[str, int] = {}
    for side, shapes in enumerate((shapes_a, shapes_b)):
        for number, shape in enumerate(shapes):
            classes[_Input(side, number)] = labels.setdefault(shape, len(labels))
    modules = [program.module for program in programs]
    asked = _Asked(programs, budget, _uneven(*modules), assumed)
    both = [_response(asked, classes, _Input(side, -1)) for side in range(len(programs))]
    if not _are_alike(*both):
        return  # whichever inputs belong together
    for found in _told_apart(asked, classes):
        theirs = {label: number for (side, number), label in found.items() if side}
        yield tuple(theirs[found[_Input(0, k)]] for k in range(len(shapes_a)))


def _told_apart(asked: _Asked, classes: Mapping[_Input, int]) -> Iterator[Mapping[_Input, int]]:
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


def _refined(asked: _Asked, classes: Mapping[_Input, int]) -> dict[_Input, int] | None:
    """The classes, split by how outputs respond; None where the two sides do not agree."""
    sizes = Counter(classes.values())
    found: dict[_Input, int] = {}
    seen: dict[int, list[tuple[int, Array]]] = {}
    for one, label in classes.items():
        if sizes[label] <= len(asked.programs):  # one of each side
            found[one] = label
            continue
        response = _response(asked, classes, one)
        known = seen.setdefault(label, [])
        number = next((n for n, other in known if _are_alike(response, other)), None)
        if number is None:
            number = len(classes) * (label + 1) + len(known)
            known.append((number, response))
        found[one] = number
    both = Counter((label, one.side) for one, label in found.items())
    if any(both[label, 0] != both[label, 1] for label, _ in both):
        return None
    names = {label: k for k, label in enumerate(dict.fromkeys(found.values()))}
    return {one: names[label] for one, label in found.items()}


def _uneven(a: Module, b: Module) -> frozenset[tuple[int, ...]]:
    """The sizes of outputs of which one module has more than the other."""
    counts = [Counter(tuple(read_shape(m.shapes[i]).dimensions) for i in m.outputs) for m in (a, b)]
    return frozenset({*(counts[0] - counts[1]), *(counts[1] - counts[0])})


def _response(asked: _Asked, classes: Mapping[_Input, int], changed: _Input) -> Array:
    """What the outputs come to with an array of its own for one input, in no order of outputs."""
    program = asked.programs[changed.side]
    arguments: list[Any] = [
        argument_like(shape, classes[here], is_other=here == changed, rows=asked.assumed.rows)
        for k, shape in enumerate(program.parameters)
        for here in [_Input(changed.side, k)]
    ]
    for (side, k), numbers in asked.assumed.limits.items():
        if side == changed.side:
            arguments[k] = limited(arguments[k], numbers)
    made = program.run(arguments, asked.budget)
    program.coverage.settle(keep=False)
    sums: dict[tuple[int, ...], list[tuple[float, float]]] = {}
    for array in made:
        if array.shape in asked.uneven:
            continue
        values = np.nan_to_num(np.abs(array).astype(float), posinf=0.0)
        sums.setdefault(array.shape, []).append((float(values.sum()), float((values**2).sum())))
    told = [
        part
        for shape in sorted(sums)
        for column in zip(*sums[shape], strict=True)
        for part in sorted(column)
    ]
    return np.array(told)


def _are_alike(one: Array, other: Array) -> bool:
    return one.shape == other.shape and bool(np.allclose(one, other, rtol=_CLOSE, atol=_NOTHING))
