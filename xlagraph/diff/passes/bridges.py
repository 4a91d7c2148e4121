"""Across what only one side has: the only one of its kind within a few steps."""

from __future__ import annotations

from typing import TYPE_CHECKING

from xlagraph.diff.pairing import MAX_CANDIDATES, Pass
from xlagraph.diff.passes.neighbours import pair_neighbours

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from xlagraph.diff.match import Side
    from xlagraph.diff.pairing import Pairing
    from xlagraph.graph import Computation

MAX_STEPS = 2
"""How far above a paired value an unpaired one is looked for: past one that has no counterpart."""


def pair_across(pairing: Pairing, ca: Computation) -> None:
    """Pairs what is the only one of its kind behind an inserted or removed instruction."""
    for x in pairing.loose_a(ca):
        y = _across(pairing, x) if pairing.to_b[x] < 0 else -1
        if y >= 0 and pairing.pair(x, y, Pass.BRIDGE):
            pair_neighbours(pairing)


def _across(pairing: Pairing, x: int) -> int:
    """The partner of `x` as seen from a paired operand or user, or -1."""
    a, b, label = pairing.a.module, pairing.b.module, pairing.a.labels[x]
    to_b, to_a = pairing.to_b, pairing.to_a
    for near, edges_a, edges_b in (
        (a.operands[x], a.users, b.users),
        (a.users[x][:MAX_CANDIDATES], a.operands, b.operands),
    ):
        for i in near:
            if to_b[i] < 0 or i == pairing.root:
                continue
            mine = _reached(pairing.a, i, edges_a, to_b, label)
            theirs = _reached(pairing.b, to_b[i], edges_b, to_a, label)
            if mine == [x] and len(theirs) == 1 and not _leads_elsewhere(pairing, x, theirs[0]):
                return theirs[0]
    return -1


def _leads_elsewhere(pairing: Pairing, x: int, y: int) -> bool:
    """Whether `x` takes values that are paired, and none of these leads to `y`."""
    a, b, label = pairing.a.module, pairing.b.module, pairing.a.labels[x]
    partners = [pairing.to_b[o] for o in a.operands[x] if not pairing.a.closed[o]]
    known = [partner for partner in partners if partner >= 0]
    return bool(known) and not any(
        y in _reached(pairing.b, partner, b.users, pairing.to_a, label) for partner in known
    )


def _reached(
    side: Side, start: int, edges: Sequence[Sequence[int]], partners: Sequence[int], label: int
) -> list[int]:
    """Unpaired instructions with this label that unpaired ones lead to from `start`."""
    found: list[int] = []
    seen = {start}
    front = [start]
    for _ in range(MAX_STEPS):
        near = (o for i in front for o in edges[i])
        front = _distinct(o for o in near if partners[o] < 0 and o not in seen)
        if not front or len(front) > MAX_CANDIDATES:
            break
        seen.update(front)
        found += [i for i in front if side.labels[i] == label and side.live[i]]
    return found


def _distinct(instructions: Iterable[int]) -> list[int]:
    """Each once, and one too many at most: a list may join thousands."""
    found: dict[int, None] = {}
    for i in instructions:
        found[i] = None
        if len(found) > MAX_CANDIDATES:
            break
    return list(found)
