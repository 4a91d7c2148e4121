"""Further lines at which one number of the program is baked in.

A loop index that is used at several lines makes a cause at each of them, and so does a position at
which several buffers are written. They move together, and are one mistake: it is told once, with
the other lines. What moves otherwise is a number of its own.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from xlagraph.runs.causes.growth import BAKED
from xlagraph.runs.second import changed_number, key_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from xlagraph.cause.model import Cause
    from xlagraph.message import SourceLine
    from xlagraph.runs.model import GraphNode
    from xlagraph.runs.second import Key


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


def further_lines(line: SourceLine | None, alike: Sequence[Cause]) -> tuple[SourceLine, ...]:
    """The lines of such causes, as far as the number is known to stand there.

    A view of a tensor is computed where that is used, which may be in another function; where the
    program's own words for the number are known, it stands there.
    """
    lines = {cause.place.line: bool(cause.short) for cause in alike if cause.place.line}
    return tuple(
        sorted(
            own
            for own, is_worded in lines.items()
            if not own.is_library
            and own != line
            and (is_worded or (line and own.scope == line.scope))
        )
    )
