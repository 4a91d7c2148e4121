"""Outwards from what is paired: users and operands that are the only candidates of their kind."""

from __future__ import annotations

from typing import TYPE_CHECKING

from xlagraph.diff.pairing import MAX_CANDIDATES, Pass, places

if TYPE_CHECKING:
    from xlagraph.diff.match import Side
    from xlagraph.diff.pairing import Pairing
    from xlagraph.graph import Computation


def frontier(pairing: Pairing, ca: Computation, cb: Computation) -> list[tuple[int, int]]:
    """The paired neighbours of unpaired instructions, seen from the side with fewer."""
    loose_a, loose_b = pairing.loose_a(ca), pairing.loose_b(cb)
    from_a = len(loose_a) <= len(loose_b)
    module, partner, loose = (
        (pairing.a.module, pairing.to_b, loose_a)
        if from_a
        else (pairing.b.module, pairing.to_a, loose_b)
    )
    operands, users = module.operands, module.users
    near = {n for i in loose for n in (*operands[i], *users[i]) if partner[n] >= 0}
    pairs = [(i, partner[i]) for i in sorted(near)]
    return pairs if from_a else [(x, y) for y, x in pairs]


def pair_neighbours(pairing: Pairing) -> None:
    """Follows the pairs in the queue to their neighbours while only one candidate fits.

    The surest first: operands are told by their positions, then come users all of whose operands
    are paired, then the others. Scalars wait until nothing else is left: they are alike, and
    tokens among them.
    """
    queue, shapes = pairing.queue, pairing.a.module.shapes
    above: list[tuple[int, int]] = []
    further: list[tuple[int, int]] = []
    scalars: list[tuple[int, int]] = []
    while queue or above or further or scalars:
        if queue:
            x, y = queue.pop()
            if shapes[x].endswith("[]"):
                scalars.append((x, y))
                continue
            _pair_operands(pairing, x, y)
            above.append((x, y))
        elif above:
            x, y = above.pop()
            _pair_users(pairing, x, y, surely=True)
            further.append((x, y))
        elif further:
            _pair_users(pairing, *further.pop())
        else:
            x, y = scalars.pop()
            _pair_operands(pairing, x, y)
            _pair_users(pairing, x, y)


def _pair_operands(pairing: Pairing, x: int, y: int) -> None:
    below_a, below_b = pairing.a.module.operands[x], pairing.b.module.operands[y]
    if x == pairing.root:
        return  # outputs come and go: their position tells nothing
    if len(below_a) != len(below_b):
        return
    to_b, to_a = pairing.to_b, pairing.to_a
    labels_a, labels_b = pairing.a.labels, pairing.b.labels
    for p, q in zip(below_a, below_b, strict=True):
        if (
            to_b[p] < 0
            and to_a[q] < 0
            and labels_a[p] == labels_b[q]
            and not _are_apart(pairing, p, q, by_name=True)
        ):
            pairing.pair(p, q, Pass.NEIGHBOUR)


def _pair_users(pairing: Pairing, x: int, y: int, *, surely: bool = False) -> None:
    to_b, live_a = pairing.to_b, pairing.a.live
    users_a = [u for u in pairing.a.module.users[x] if to_b[u] < 0 and live_a[u]]
    if not users_a or len(users_a) > MAX_CANDIDATES:
        return
    to_a, live_b = pairing.to_a, pairing.b.live
    users_b = [u for u in pairing.b.module.users[y] if to_a[u] < 0 and live_b[u]]
    if not users_b or len(users_b) > MAX_CANDIDATES:
        return
    for p, q in _unique_pairs(
        [(_use(pairing.a, x, u), u) for u in users_a],
        [(_use(pairing.b, y, u), u) for u in users_b],
    ):
        if (
            _take_the_same(pairing, p, q)
            if surely
            else not _are_apart(pairing, p, q, by_name=False)
        ):
            pairing.pair(p, q, Pass.NEIGHBOUR)


def _take_the_same(pairing: Pairing, p: int, q: int) -> bool:
    operands_p, operands_q = pairing.a.module.operands[p], pairing.b.module.operands[q]
    return [pairing.to_b[x] for x in operands_p] == [*operands_q]


def _are_apart(pairing: Pairing, p: int, q: int, *, by_name: bool) -> bool:
    """Whether one takes a value that is paired with what the other does not take there.

    So like layers are not followed off by one where a layer was left out. An operand may well
    differ so, where something was put in before it, unless it is known `by_name`.
    """
    operands_p, operands_q = pairing.a.module.operands[p], pairing.b.module.operands[q]
    if len(operands_p) != len(operands_q):
        return False
    to_b, to_a, closed = pairing.to_b, pairing.to_a, pairing.a.closed
    for x, y in zip(operands_p, operands_q, strict=True):
        if to_b[x] == y or closed[x]:
            continue  # constants are alike
        if to_b[x] >= 0 and (not by_name or x in pairing.near_a):
            return True
        if to_a[y] >= 0 and (not by_name or y in pairing.near_b):
            return True
        if not by_name and _spread_others(pairing, x, y):
            return True
    return False


def _spread_others(pairing: Pairing, x: int, y: int) -> bool:
    """Whether both spread a number that is made in another way: a product with each is another.

    So is one with a number that is paired with another one. Not so with constants: any number may
    become one.
    """
    a, b = pairing.a, pairing.b
    while a.labels[x] == b.labels[y] and a.module.opcodes[x] == "broadcast":
        (x,), (y,) = a.module.operands[x], b.module.operands[y]
        if a.labels[x] != b.labels[y]:
            return not (a.closed[x] or b.closed[y])
    is_known = pairing.to_b[x] >= 0 or pairing.to_a[y] >= 0
    return is_known and pairing.to_b[x] != y and not (a.closed[x] or b.closed[y])


def _use(side: Side, i: int, user: int) -> object:
    """How `user` uses `i`; equal on both sides for instructions that may be paired."""
    return (side.labels[user], places(side, i, user))


def _unique_pairs(
    a: list[tuple[object, int]], b: list[tuple[object, int]]
) -> list[tuple[int, int]]:
    """Pairs the entries whose key occurs exactly once on each side."""
    single_a, single_b = _singles(a), _singles(b)
    return [
        (x, single_b[key]) for key, x in single_a.items() if x >= 0 and single_b.get(key, -1) >= 0
    ]


def _singles(entries: list[tuple[object, int]]) -> dict[object, int]:
    """The entry of each key; -1 where a key has several."""
    found: dict[object, int] = {}
    for key, entry in entries:
        found[key] = -1 if key in found else entry
    return found
