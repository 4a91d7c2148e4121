"""Pairs that hang together with nothing else, where their surroundings lead elsewhere."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

    from xlagraph.diff.pairing import Pairing
    from xlagraph.graph import Computation

MOST = 6
"""Pairs of an island at most: a larger one tells by itself that it is the same."""


def part_islands(pairing: Pairing, ca: Computation) -> bool:
    """Parts few pairs that no paired operand or user confirms, and some paired operand denies.

    A sum may be the only one of its size on both sides, and yet another one: what it sums up is
    summed up in B by one that has no partner. Returns whether any were parted.
    """
    owner = _groups(pairing, ca)
    members: dict[int, list[int]] = {}
    for x in range(ca.start, ca.stop):
        if owner[x - ca.start] >= 0:
            members.setdefault(_top(owner, x - ca.start), []).append(x)
    small = [own for own in members.values() if len(own) <= MOST]
    lost = [own for own in small if _may_part(pairing, own) and any(_denied(pairing, own))]
    for own in lost:
        for x in (*own, *_constants(pairing, own)):
            pairing.part(x)
    return bool(lost)


def _groups(pairing: Pairing, ca: Computation) -> list[int]:
    """A forest over the computation's pairs; those in one tree confirm each other; -1 of others."""
    a, b, to_b = pairing.a, pairing.b.module, pairing.to_b
    owner = [k if to_b[ca.start + k] >= 0 else -1 for k in range(ca.stop - ca.start)]
    for x in range(ca.start, ca.stop):
        if to_b[x] < 0:
            continue
        theirs = {*b.operands[to_b[x]]}
        for o in a.module.operands[x]:
            if to_b[o] in theirs and not a.closed[o]:
                owner[_top(owner, o - ca.start)] = _top(owner, x - ca.start)
    return owner


def _top(owner: list[int], k: int) -> int:
    while owner[k] != k:
        owner[k] = owner[owner[k]]
        k = owner[k]
    return k


def _may_part(pairing: Pairing, own: list[int]) -> bool:
    """Whether a group holds neither inputs nor the root, and is made of no constants alone."""
    a = pairing.a
    held = ("parameter", "constant", "tuple")
    return not any(a.closed[x] or a.module.opcodes[x] in held for x in own)


def _constants(pairing: Pairing, own: list[int]) -> set[int]:
    """The paired constants that a group alone uses: they would vote for what it was."""
    a, to_b = pairing.a, pairing.to_b
    used = {o for x in own for o in a.module.operands[x] if a.closed[o] and to_b[o] >= 0}
    return {o for o in used if {*a.module.users[o]} <= {*own}}


def _denied(pairing: Pairing, own: list[int]) -> Iterator[bool]:
    """For each paired operand from outside, whether an unpaired one in B uses its partner alike."""
    a, b, to_b = pairing.a, pairing.b, pairing.to_b
    for x in own:
        for k, o in enumerate(a.module.operands[x]):
            if to_b[o] < 0 or a.closed[o] or o in own:
                continue
            yield any(
                pairing.to_a[u] < 0
                and b.live[u]
                and b.module.opcodes[u] == a.module.opcodes[x]
                and b.module.operands[u][k : k + 1] == (to_b[o],)
                for u in b.module.users[to_b[o]][:MOST]
            )
