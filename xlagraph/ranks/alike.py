"""Differences between ranks put together: the same ranks, one reason."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from itertools import chain
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

    from xlagraph.cause.kinds import Kind
    from xlagraph.message import SourceLine
    from xlagraph.ranks.explain import Divergence

    Key = tuple[tuple[int, ...], tuple[int, ...], Kind | None, SourceLine | None, object]


@dataclass(frozen=True, slots=True, eq=False)
class Alike:
    """Divergences of the same ranks that one cause explains, or none."""

    first: Divergence
    number: int
    steps: tuple[int, ...]
    """Of all of them, rising."""
    ran: tuple[str, ...]
    usual: tuple[str, ...]
    """Letters of all graphs, in the order of the steps."""


def alike(divergences: Iterable[Divergence], *, by_cause: bool = True) -> list[Alike]:
    """Groups divergences by ranks, and by kind of cause and line; the earliest first."""
    groups: defaultdict[Key, list[Divergence]] = defaultdict(list)
    for one in divergences:
        groups[_key(one, by_cause=by_cause)].append(one)
    return [
        Alike(
            first=group[0],
            number=len(group),
            steps=tuple(sorted({step for one in group for step in one.difference.steps})),
            ran=tuple(dict.fromkeys(chain.from_iterable(one.ran for one in group))),
            usual=tuple(dict.fromkeys(chain.from_iterable(one.usual for one in group))),
        )
        for group in groups.values()
    ]


def _key(one: Divergence, *, by_cause: bool) -> Key:
    what, explanation = one.difference, one.explanation
    cause = explanation.causes[0] if explanation and explanation.causes else None
    line = cause.place.line if cause else one.line
    kind, line = (cause.kind if cause else None, line) if by_cause else (None, None)
    sides = not one.ran, not one.usual, what.is_end
    return what.ranks, what.others, kind, line, sides
