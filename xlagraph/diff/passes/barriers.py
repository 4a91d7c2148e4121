"""Optimization barriers, identified by what passes them.

A barrier gives back the tuple that it takes in, and where a value stands in the tuple says
nothing: FSDP lets all that is alive pass, in lists that grow and shrink from step to step.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from xlagraph.canon.barriers import BARRIER
from xlagraph.diff.pairing import Pass

if TYPE_CHECKING:
    from xlagraph.diff.pairing import Pairing


def pair_barriers(pairing: Pairing) -> None:
    """Pairs barriers and their tuples by most of what is picked out of them and is paired."""
    a, b = pairing.a.module, pairing.b.module
    votes: Counter[tuple[int, int]] = Counter()
    for x, y in enumerate(pairing.to_b):
        if y >= 0 and a.opcodes[x] == b.opcodes[y] == "get-tuple-element":
            votes[a.operands[x][0], b.operands[y][0]] += 1
    for (x, y), _ in sorted(votes.items(), key=lambda vote: (-vote[1], vote[0])):
        _pair_chain(pairing, x, y)


def _pair_chain(pairing: Pairing, x: int, y: int) -> None:
    """Pairs two barriers, those that they stand on, and the tuples below."""
    a, b = pairing.a.module, pairing.b.module
    while a.opcodes[x] == b.opcodes[y] == BARRIER and pairing.pair(x, y, Pass.BARRIER):
        x, y = a.operands[x][0], b.operands[y][0]
    if a.opcodes[x] == b.opcodes[y] == "tuple":
        pairing.pair(x, y, Pass.BARRIER)
