"""Bounded similarity: the candidate that most paired neighbours lead to."""

from __future__ import annotations

from collections import Counter
from operator import eq
from typing import TYPE_CHECKING

from xlagraph.diff.pairing import MAX_CANDIDATES, MAX_ROUNDS, Pass, places
from xlagraph.diff.passes.neighbours import pair_neighbours

if TYPE_CHECKING:
    from collections.abc import Sequence

    from xlagraph.diff.pairing import Pairing
    from xlagraph.graph import Computation, Module


def pair_by_vote(pairing: Pairing, ca: Computation) -> None:
    """Pairs each unpaired instruction with the one that shares most paired neighbours."""
    unpaired = pairing.loose_a(ca)
    begun: dict[int, int] = {}
    for _ in range(MAX_ROUNDS):
        for x in unpaired:
            votes = _votes(pairing, x, begun) if pairing.to_b[x] < 0 else None
            if votes:
                best = max(votes, key=lambda y: (votes[y], *_likeness(pairing, x, y), -y))
                pairing.pair(x, best, Pass.VOTE)
                pair_neighbours(pairing)
        left = [x for x in unpaired if pairing.to_b[x] < 0]
        if len(left) == len(unpaired):
            break
        unpaired = left


def _votes(pairing: Pairing, x: int, begun: dict[int, int]) -> Counter[int]:
    """How much speaks for each candidate. `begun`: where `_open` stands, by instruction of B."""
    a, b = pairing.a.module, pairing.b.module
    to_b = pairing.to_b
    votes: Counter[int] = Counter()
    for o in a.operands[x]:
        partner = to_b[o]
        if partner >= 0:
            here = places(pairing.a, o, x)
            for u in _told_by(pairing, o, x):
                if _is_candidate(pairing, x, u):
                    votes[u] += 1 + (places(pairing.b, partner, u) == here)
    for u in a.users[x][:MAX_CANDIDATES]:
        partner = to_b[u]
        if partner >= 0 and (_is_short(b, partner) or b.opcodes[partner] == "concatenate"):
            here = places(pairing.a, x, u)
            for o in dict.fromkeys(_open(pairing, partner, begun)):
                if _is_candidate(pairing, x, o):
                    votes[o] += 1 + (places(pairing.b, o, partner) == here)
    return votes


def _is_candidate(pairing: Pairing, x: int, y: int) -> bool:
    """Whether `y` of B is free and of x's kind.

    What constants make is no value of a tensor, unless it fills one of the other's shape.
    """
    a, b = pairing.a, pairing.b
    is_kind = a.module.opcodes[x] == b.module.opcodes[y]
    fills = a.module.shapes[x] == b.module.shapes[y] and _sizes(b.module.shapes[y]) != [""]
    is_made_alike = a.closed[x] == b.closed[y] or fills
    return is_kind and is_made_alike and pairing.to_a[y] < 0 and bool(b.live[y])


def _told_by(pairing: Pairing, operand: int, user: int) -> Sequence[int]:
    """The users in B of an operand of A, as far as they may be the one that uses it in A.

    One number, such as a momentum, goes into tensors of every size: of those of another size it
    tells nothing, unless as many are left on both sides.
    """
    a, b = pairing.a.module, pairing.b.module
    theirs = b.users[pairing.to_b[operand]][:MAX_CANDIDATES]
    if _sizes(a.shapes[operand]) != [""]:
        return theirs
    own = _sizes(a.shapes[user])
    mine = a.users[operand][:MAX_CANDIDATES]
    left_a = [u for u in mine if _is_left(pairing.to_b, a, u, a.opcodes[user])]
    left_b = [u for u in theirs if _is_left(pairing.to_a, b, u, a.opcodes[user])]
    if len(left_a) == len(left_b):
        return theirs
    return [u for u in theirs if _sizes(b.shapes[u]) == own]


def _is_left(partners: Sequence[int], module: Module, i: int, opcode: str) -> bool:
    return partners[i] < 0 and module.opcodes[i] == opcode


def _is_short(module: Module, i: int) -> bool:
    """Whether it takes in few values: of a long tuple or bucket any of them would be a guess."""
    return len(module.operands[i]) <= MAX_CANDIDATES


def _open(pairing: Pairing, user: int, begun: dict[int, int]) -> Sequence[int]:
    """The first operands of one instruction of B from the first unpaired one on.

    What is passed by, as in a list that is joined of very many, is never looked at again.
    """
    operands, to_a = pairing.b.module.operands[user], pairing.to_a
    start = begun.get(user, 0)
    while start < len(operands) and to_a[operands[start]] >= 0:
        start += 1
    begun[user] = start
    return operands[start : start + MAX_CANDIDATES]


def _likeness(pairing: Pairing, x: int, y: int) -> tuple[int, int]:
    """How many dimensions of two shapes agree, and how many neighbours in the text."""
    first, second = _sizes(pairing.a.module.shapes[x]), _sizes(pairing.b.module.shapes[y])
    alike = sum(map(eq, first, second)) + 1 if len(first) == len(second) else 0
    to_b = pairing.to_b
    beside = sum(
        1 for step in (-1, 1) if 0 <= x + step < len(to_b) and 0 <= to_b[x + step] == y + step
    )
    return alike, beside


def _sizes(shape: str) -> list[str]:
    """The dimensions of an array's shape, as written."""
    return shape.partition("[")[2].partition("]")[0].split(",")
