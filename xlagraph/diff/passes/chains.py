"""Pairs within chains of one opcode, of which one module has a link more."""

from __future__ import annotations

from typing import TYPE_CHECKING

from xlagraph.diff.pairing import Pass

if TYPE_CHECKING:
    from collections.abc import Sequence

    from xlagraph.diff.match import Side
    from xlagraph.diff.pairing import Pairing
    from xlagraph.graph import Computation

LINKS = 4
"""Links that one module may have more."""


def slide_along_chains(pairing: Pairing, ca: Computation) -> None:
    """Pairs what is made of paired values alike, where its user of the same opcode was paired.

    A mask multiplies what a product gives: which of the two products is the other module's is told
    by what they take in, for that makes them equal; that the last one is used alike does not.
    """
    a, b = pairing.a, pairing.b
    for x in range(ca.start, ca.stop):
        y = pairing.to_b[x]
        if y < 0 or _are_made_alike(pairing, x, y):
            continue
        if (link := _link(a, pairing.to_b, x, b, y)) is not None:
            pairing.part(x)
            pairing.pair(link, y, Pass.EXPRESSION)
        elif (link := _link(b, pairing.to_a, y, a, x)) is not None:
            pairing.part(x)
            pairing.pair(x, link, Pass.EXPRESSION)


def _are_made_alike(pairing: Pairing, x: int, y: int) -> bool:
    theirs = pairing.b.module.operands[y]
    return [pairing.to_b[o] for o in pairing.a.module.operands[x]] == [*theirs]


def _link(own: Side, partners: Sequence[int], last: int, other: Side, target: int) -> int | None:
    """The unpaired link before the last one that is made of what the target is made of."""
    module = own.module
    front = [last]
    for _ in range(LINKS):
        front = [
            o
            for i in front
            for o in module.operands[i]
            if partners[o] < 0 and module.opcodes[o] == module.opcodes[last] and not own.closed[o]
        ]
        for i in front:
            made = [partners[o] for o in module.operands[i]]
            is_alike = module.shapes[i] == other.module.shapes[target]
            if is_alike and made == [*other.module.operands[target]] and -1 not in made:
                return i
    return None
