"""Further lines at which one number of the program is baked in.

A loop index that is used at several lines makes a cause at each of them, and so does a position at
which several buffers are written. They move together, and are one mistake: it is told once, with
the other lines. What moves otherwise is a number of its own.
"""

from __future__ import annotations

import re
from collections import Counter
from math import isclose
from typing import TYPE_CHECKING

from xlagraph.rules.numbers.constant_value import CONSTANT_VALUE
from xlagraph.rules.shapes.sizes import INPUT_SHAPE, PYTHON_SIZE
from xlagraph.runs.beside import told_as
from xlagraph.runs.causes.growth import BAKED
from xlagraph.runs.second import changed_number, key_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from xlagraph.cause.model import Cause
    from xlagraph.message import SourceLine
    from xlagraph.runs.model import GraphNode
    from xlagraph.runs.second import Key

_INDEXED = re.compile(r"\w\[[^\]]*\b[A-Za-z_]\w*[^\]]*\]")
SIZES = frozenset({INPUT_SHAPE, PYTHON_SIZE})
NUMBERS = frozenset({*BAKED, CONSTANT_VALUE})
SAME = frozenset({("times", 1.0), ("plus", 0.0), ("square", 1.0)})
"""How a number comes of a size that is the same, or counts all pairs of as many."""


def moving_alike(
    first: Key, kind: object, others: Iterable[Cause], members: Sequence[GraphNode]
) -> tuple[Cause, ...]:
    """Those of `others` that have the kind of the first cause, and the same number as that.

    `first`: the key of what the graphs are filed with.
    """
    return tuple(
        other
        for other in others
        if kind in BAKED and other.kind is kind and _moves_alike(first, key_of(other), members)
    )


def _moves_alike(first: Key, second: Key, members: Sequence[GraphNode]) -> bool:
    """Whether both numbers become larger or smaller by as much, and stay as far apart.

    Of one graph alone they have to be the same number.
    """
    apart: list[tuple[float, float]] = []
    for node in members:
        causes = (
            {key_of(c): c for c in reversed(node.explanation.causes)} if node.explanation else {}
        )
        if first not in causes or second not in causes:
            continue
        one, other = changed_number(causes[first]), changed_number(causes[second])
        if one is None or other is None:
            return False
        apart.append((other[0] - one[0], other[1] - one[1]))
    is_same = set(apart) == {(0.0, 0.0)}
    is_moved = len(apart) > 1 and len({gap for gaps in apart for gap in gaps}) == 1
    return is_same or is_moved


def worded_alike(first: Cause, members: Sequence[GraphNode]) -> tuple[Cause, ...]:
    """What the graphs differ in at other lines of the first cause's function, in its words.

    Such lines have numbers of their own, and one mend.
    """
    outcomes = (node.explanation for node in members if node.explanation)
    causes = (cause for outcome in outcomes for cause in outcome.causes)
    told = told_as(first)
    return tuple(one for one in causes if first.short and told_as(one) == told)


def _is_indexed(cause: Cause) -> bool:
    """Whether a name stands in the brackets behind another one, on a cause's line."""
    texts = dict(cause.place.source)
    line = cause.place.line
    return cause.kind in BAKED and bool(line and _INDEXED.search(texts.get(line.line, "")))


def follows_size(first: Key, other: Cause, members: Sequence[GraphNode]) -> bool:
    """Whether a number is computed of the size that the first cause tells of.

    Then it is always so many times as large, or always so much larger, or its square. In a single
    graph it has to be the same number.

    Args:
        first: the key of what the graphs are filed with.
        other: one of the causes beside it.
        members: the graphs.
    """
    if other.kind not in NUMBERS or key_of(other) == first:
        return False
    seen: list[set[tuple[str, float]]] = []
    for node in members:
        causes = node.explanation.causes if node.explanation else ()
        sizes = [one for one in causes if key_of(one) == first and one.kind in SIZES]
        numbers = (one for one in causes if key_of(one) == key_of(other))
        seen += [{found for size in sizes for found in _relations(size, one)} for one in numbers]
    times = Counter(relation for found in seen for relation in found)
    often = {one for one, number in times.items() if number > 1 or one in SAME}
    return bool(seen) and all(found & often for found in seen)


def _relations(size: Cause, other: Cause) -> Iterator[tuple[str, float]]:
    """How a number comes of a size before and after."""
    sizes, numbers = changed_number(size), changed_number(other)
    if sizes is None or numbers is None or 0 in sizes:
        return
    (a, b), (c, d) = sizes, numbers
    if isclose(c * b, d * a):
        yield "times", round(c / a, 9)
    if c - a == d - b:
        yield "plus", c - a
    if (c, d) == (a * a, b * b):
        yield "square", 1.0


def further_lines(line: SourceLine | None, alike: Sequence[Cause]) -> tuple[SourceLine, ...]:
    """The lines of such causes, as far as the number is known to stand there.

    A view of a tensor is computed where that is used, which may be in another function; where the
    program's own words for the number are known, or a name stands in brackets, it stands there.
    """
    lines = {
        cause.place.line: bool(cause.short) or _is_indexed(cause)
        for cause in alike
        if cause.place.line
    }
    return tuple(
        sorted(
            own
            for own, is_worded in lines.items()
            if not own.is_library
            and own != line
            and (is_worded or (line and own.scope == line.scope))
        )
    )
