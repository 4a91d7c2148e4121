"""Optimization barriers, identified by what passes them.

A barrier gives back the tuple that it takes in, and where a value stands in the tuple says
nothing: FSDP lets all that is alive pass, in lists that grow and shrink from step to step.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from xlagraph.canon.barriers import BARRIER, element, passed_values
from xlagraph.diff.pairing import Pass

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from xlagraph.diff.match import Side
    from xlagraph.diff.pairing import Pairing


def pair_passed(pairing: Pairing) -> None:
    """Pairs barriers, their tuples and what is picked out of them; all else is paired already.

    What is picked is identified by the value that passes and by what takes it in; a barrier by
    most of what is picked out of it.
    """
    passed_a, passed_b = _live_passed(pairing.a), _live_passed(pairing.b)
    votes: Counter[tuple[int, int]] = Counter()
    for p, q in _taken_in(pairing, passed_a, passed_b):
        if pairing.to_b[passed_a[p]] == passed_b[q] and pairing.pair(p, q, Pass.BARRIER):
            votes[pairing.a.module.operands[p][0], pairing.b.module.operands[q][0]] += 1
    for (x, y), _ in sorted(votes.items(), key=lambda vote: (-vote[1], vote[0])):
        _pair_barriers(pairing, x, y)
    _pair_rest(pairing, passed_a, passed_b)


def _live_passed(side: Side) -> dict[int, int]:
    found = passed_values(side.module)
    return {i: source for i, source in found.items() if side.live[i]}


def _taken_in(
    pairing: Pairing, passed_a: Mapping[int, int], passed_b: Mapping[int, int]
) -> Iterator[tuple[int, int]]:
    """What paired instructions take in at one place and barriers have let pass, outer first."""
    a, b, root = pairing.a.module, pairing.b.module, pairing.root
    pairs = [(x, y) for x, y in enumerate(pairing.to_b) if y >= 0 and x != root]
    for x, y in pairs:
        for p, q in zip(a.operands[x], b.operands[y], strict=False):
            while p in passed_a and q in passed_b:
                yield p, q
                p, q = element(a, p) or passed_a[p], element(b, q) or passed_b[q]


def _pair_barriers(pairing: Pairing, x: int, y: int) -> None:
    """Pairs two barriers, those that they stand on, and the tuples below."""
    a, b = pairing.a.module, pairing.b.module
    while a.opcodes[x] == b.opcodes[y] == BARRIER and pairing.pair(x, y, Pass.BARRIER):
        x, y = a.operands[x][0], b.operands[y][0]
    if a.opcodes[x] == b.opcodes[y] == "tuple":
        pairing.pair(x, y, Pass.BARRIER)


def _pair_rest(pairing: Pairing, passed_a: Mapping[int, int], passed_b: Mapping[int, int]) -> None:
    """Pairs what is picked out of paired barriers and is the same value, outputs among it."""
    operands_a, operands_b = pairing.a.module.operands, pairing.b.module.operands
    free = {(operands_b[q][0], s): q for q, s in passed_b.items() if pairing.to_a[q] < 0}
    for p, source in passed_a.items():
        q = free.get((pairing.to_b[operands_a[p][0]], pairing.to_b[source]), -1)
        if q >= 0:
            pairing.pair(p, q, Pass.BARRIER)
