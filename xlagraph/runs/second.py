"""A second cause in the same graphs, which stays when the first one is mended.

What follows from the first follows its numbers: where a batch is longer, so is all that is made for
it. What has numbers of its own goes up in graphs in which the first goes up, and in others in which
that goes down.
"""

from __future__ import annotations

import re
from collections import Counter
from math import isclose
from typing import TYPE_CHECKING

from xlagraph.message import Change
from xlagraph.rules.dtypes.dtype import DTYPE
from xlagraph.rules.numbers.constant_value import CONSTANT_VALUE
from xlagraph.rules.numbers.shared_scalar import SHARED_SCALAR
from xlagraph.rules.order.output_order import OUTPUT_ORDER
from xlagraph.rules.order.reordered_operands import REORDERED_OPERANDS
from xlagraph.rules.order.reordered_sum import REORDERED_SUM
from xlagraph.rules.shapes.sizes import ATTRIBUTE, INPUT_SHAPE, PYTHON_INDEX, PYTHON_SIZE
from xlagraph.runs.beside import family, is_right_behind
from xlagraph.runs.causes.growth import BAKED, is_made_in_library, main_line

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Sequence

    from xlagraph.cause.kinds import Kind
    from xlagraph.cause.model import Cause
    from xlagraph.cause.verdict import Place
    from xlagraph.message import SourceLine
    from xlagraph.runs.model import GraphNode

    Key = tuple[Kind, SourceLine | None]

FREQUENT = 0.25
"""The part of its graphs that a cause beside the first one is in, to be told with that: a log now
and then keeps a tensor."""
TWICE = 2
"""In so many graphs at least two numbers go the same way, and in as many opposite ways, to be two:
once a rounded number may."""

ROUNDED = 1e-6
"""How far a number in a text may be from what it is."""
_OF_TYPES = frozenset({REORDERED_OPERANDS, REORDERED_SUM})

_NUMBER = re.compile(r"-?\d+(?:\.\d+)?(?:e[+-]?\d+)?")
_IN_WORDS = re.compile(r"([^:(,]*) -> ([^:(,]*)")


def key_of(cause: Cause) -> Key:
    """What makes two causes one to whom they are told.

    Where a span begins is no other cause than how long it is, nor is what fits around it.
    """
    return family(cause.kind), main_line(cause)


def second_causes(
    first: Key, others: Iterable[Cause], members: Sequence[GraphNode]
) -> tuple[Cause, ...]:
    """Those of `others` to be mended too: proved in many graphs, with numbers of their own.

    `first`: the key of what the graphs are filed with. Another line of the same function most
    likely has the same number; and a number in the function of a size, as a scale, goes with that.
    """
    found = [
        other
        for other in others
        if other.kind is not OUTPUT_ORDER
        and not (first[0] is INPUT_SHAPE and is_made_in_library(other))
        and _is_elsewhere(other, first)
        and _goes_its_own_way(first, key_of(other), members)
    ]
    return tuple(one for one in found if not goes_with_size(one, found))


def goes_with_size(cause: Cause, others: Iterable[Cause]) -> bool:
    """Whether a cause is a number in a function where a size is baked that is one of others."""
    sizes = (one for one in others if one.kind in (PYTHON_INDEX, PYTHON_SIZE))
    return cause.kind is CONSTANT_VALUE and _scope(cause) in map(_scope, sizes)


def _scope(cause: Cause) -> tuple[str, str] | None:
    return cause.place.line and cause.place.line.scope


def _is_elsewhere(other: Cause, first: Key) -> bool:
    own, line = other.place.line, first[1]
    if own is None or own.is_library or line is None:
        return False
    is_there = own.scope == line.scope
    is_derivative = other.place.is_near or own.backward_of  # what has no line of its own
    is_of_first = (is_there or is_derivative) and family(other.kind) is first[0]
    return own != line and not is_of_first


def _goes_its_own_way(first: Key, second: Key, members: Sequence[GraphNode]) -> bool:
    together = Counter[int]()
    number = 0
    for node in members:
        outcome = node.explanation
        if outcome is None or not outcome.proved:
            continue
        causes = {key_of(cause): cause for cause in reversed(outcome.causes)}
        if second in causes and first in causes:
            number += 1
            together.update(_ways(causes[first], causes[second]))
    return number >= FREQUENT * len(members) and min(together[1], together[-1]) >= TWICE


def _ways(first: Cause, second: Cause) -> set[int]:
    """Whether two numbers go the same way, 1, or opposite ones, -1; 0 where one does neither.

    Of sizes that go both ways at once, as those of a split, a number that is none of them and no
    part of one follows none.
    """
    sizes, numbers = [*changed_numbers(first)], [*changed_numbers(second)]
    either = {_way(change) for change in sizes}
    if len(either) < 2 or not numbers:
        return {_way(*sizes[:1]) * _way(*numbers[:1])}
    old, new = ({*side, *(1 / n for n in side if n)} for side in zip(*sizes, strict=True))
    x, y = numbers[0]
    is_of_them = any(isclose(x, n, rel_tol=ROUNDED) for n in old) and any(
        isclose(y, n, rel_tol=ROUNDED) for n in new
    )
    return set() if is_of_them else {1, -1}


def _way(change: tuple[float, float] = (0, 0)) -> int:
    """Whether a number becomes larger, 1, or smaller, -1; else 0."""
    return (change[1] > change[0]) - (change[1] < change[0])


def changed_number(cause: Cause) -> tuple[float, float] | None:
    """The first number in which the two texts differ that a cause tells of; None if there is none.

    Where it begins or ends is written as a change, or in words: ``0 before -> 8 before``.
    """
    return next(changed_numbers(cause), None)


def changed_numbers(cause: Cause) -> Iterator[tuple[float, float]]:
    """All such numbers, one of each change."""
    for part in cause.title.parts:
        if isinstance(part, Change):
            old, new = _numbers(part.old), _numbers(part.new)
            pairs = list(zip(old, new, strict=False)) if len(old) == len(new) else []
        elif isinstance(part, str) and (told := _IN_WORDS.search(part)):
            pairs = list(zip(*map(_numbers, told.groups()), strict=False))
        else:
            continue
        if found := next(((x, y) for x, y in pairs if x != y), None):
            yield found


def _numbers(text: str) -> list[float]:
    return list(map(float, _NUMBER.findall(text)))


def follows_another(cause: Cause, kinds: Collection[Kind], loops: Sequence[Place]) -> bool:
    """Whether a cause beside the first only follows what else is told.

    Where inputs come in types that change, they pair by these and stand in another order; what a
    loop reads and skips leaves out its slices; and the gradients of parts are joined as these are.

    Args:
        cause: one beside the first.
        kinds: what is told of other graphs of the run.
        loops: where loops read a value that says how often they run.
    """
    line = cause.place.line
    is_of_order = cause.kind in _OF_TYPES
    if line and line.backward_of and (is_of_order or cause.kind in BAKED):
        return True
    if is_of_order:
        return DTYPE in kinds
    return cause.kind in BAKED and any(_is_right_behind(cause, one) for one in loops)


def comes_along(cause: Cause, told: frozenset[Kind], place: Place) -> bool:
    """Whether a cause beside others comes of the numbers that these tell of.

    A number in the text that changes is handed in as well, where a derivative takes it, and may be
    equal to another one there. What the numbers of a line set pairs off in another order near it.

    Args:
        cause: one beside the others.
        told: the kinds of these.
        place: where the first of them is.
    """
    if cause.kind is SHARED_SCALAR:
        return CONSTANT_VALUE in told
    is_near = cause.place.is_near and cause.place.line == place.line
    return is_near and cause.kind in _OF_TYPES and not told.isdisjoint(BAKED)


def is_made_as_large(cause: Cause, place: Place) -> bool:
    """Whether options of an operation are those of what is made as large as a size that changes."""
    return cause.kind is ATTRIBUTE and _is_right_behind(cause, place)


def _is_right_behind(cause: Cause, place: Place) -> bool:
    """Whether a cause is of a line of one function, at a place or a few lines behind it."""
    line, first = cause.place.line, place.line
    return line is not None and first is not None and is_right_behind(line, first)
