"""What acts on the world, in pairs: its order in the text, its channels, its threads.

Values and operands say nothing about these, and XLA may not change them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from xlagraph.canon.labels import CHANNEL
from xlagraph.canon.live import acting
from xlagraph.diff.align import longest_rise

if TYPE_CHECKING:
    from collections.abc import Iterator

    from xlagraph.diff.match import Match
    from xlagraph.graph import Module


class ThreadChange(NamedTuple):
    """Two computations that are paired and run on different threads."""

    a: int
    b: int
    """Numbers of the computations."""
    thread_a: str
    thread_b: str


def moved_effects(match: Match) -> tuple[tuple[int, int], ...]:
    """Pairs that act on the world and come before or after others than in the other module.

    As few as account for the difference: the others stand in one order.
    """
    moved: list[tuple[int, int]] = []
    for pairs in _acting_pairs(match):
        kept = set(longest_rise([y for _, y in pairs]))
        moved += [pair for k, pair in enumerate(pairs) if k not in kept]
    return tuple(moved)


def other_channels(match: Match) -> frozenset[int]:
    """Instructions of A that share a channel with others than their partners do."""
    there: dict[str, str] = {}
    back: dict[str, str] = {}
    found = set()
    for pairs in _acting_pairs(match):
        for x, y in pairs:
            mine, theirs = _channel(match.a.module, x), _channel(match.b.module, y)
            if there.setdefault(mine, theirs) != theirs or back.setdefault(theirs, mine) != mine:
                found.add(x)
    return frozenset(found)


def other_threads(match: Match) -> tuple[ThreadChange, ...]:
    """Paired computations that run on different threads."""
    a, b = match.a.module.computations, match.b.module.computations
    pairs = sorted(match.computations.items())
    threads = ((x, y, a[x].execution_thread, b[y].execution_thread) for x, y in pairs)
    return tuple(ThreadChange(*found) for found in threads if found[2] != found[3])


def _channel(module: Module, i: int) -> str:
    return module.attributes[i].get(CHANNEL) or ""


def _acting_pairs(match: Match) -> Iterator[list[tuple[int, int]]]:
    """For each pair of computations the pairs in them that act, in A's text order."""
    a, b = match.a.module, match.b.module
    if not (a.effects and b.effects):
        return
    for c, d in sorted(match.computations.items()):
        others = set(acting(b, b.computations[d]))
        mine = acting(a, a.computations[c])
        yield [(x, match.to_b[x]) for x in mine if match.to_b[x] in others]
