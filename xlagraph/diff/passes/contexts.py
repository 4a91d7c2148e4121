"""What is used alike, or made alike, seen from what is paired already."""

from __future__ import annotations

from typing import TYPE_CHECKING

from xlagraph.diff.pairing import MAX_CANDIDATES, MAX_ROUNDS, Pass, places
from xlagraph.diff.passes.alike import pair_groups

if TYPE_CHECKING:
    from collections.abc import Sequence

    from xlagraph.diff.match import Side
    from xlagraph.diff.pairing import Pairing
    from xlagraph.graph import Computation


def pair_by_context(
    pairing: Pairing, ca: Computation, cb: Computation, *, by_text: bool = False
) -> bool:
    """Pairs by contexts from above and expressions below until nothing new is paired.

    Returns whether interchangeable instructions were left, which `by_text` pairs in text order.
    """
    labels_a, labels_b = pairing.a.labels, pairing.b.labels
    loose_a, loose_b = pairing.loose_a(ca), pairing.loose_b(cb)
    are_left = False
    for _ in range(MAX_ROUNDS):
        before = len(loose_a)
        for numbers, by in ((_contexts, Pass.CONTEXT), (_expressions, Pass.EXPRESSION)):
            # What has no counterpart by label cannot pair and tells nothing apart.
            common = {labels_a[x] for x in loose_a}
            common.intersection_update([labels_b[y] for y in loose_b])
            found_a = [x for x in loose_a if labels_a[x] in common]
            found_b = [y for y in loose_b if labels_b[y] in common]
            are_left |= pair_groups(
                pairing,
                numbers(pairing, pairing.a, found_a, pairing.to_b),
                numbers(pairing, pairing.b, found_b, None),
                by,
                by_text=by_text,
            )
            loose_a = [x for x in loose_a if pairing.to_b[x] < 0]
            loose_b = [y for y in loose_b if pairing.to_a[y] < 0]
        if before == len(loose_a):
            break
    return are_left


def _contexts(
    pairing: Pairing, side: Side, loose: Sequence[int], to_b: Sequence[int] | None
) -> dict[int, int]:
    """Numbers for how unpaired instructions are used, seen from the paired ones."""
    found: dict[int, int] = {}
    users, live, labels = side.module.users, side.live, side.labels
    anchor, number = pairing.anchor, pairing.interner.number
    for i in reversed(loose):
        uses = [
            (anchor(u, to_b), found.get(u, -1), places(side, i, u))
            for u in users[i][:MAX_CANDIDATES]
            if live[u]
        ]
        uses.sort()
        found[i] = number(("context", labels[i], tuple(uses)))
    return found


def _expressions(
    pairing: Pairing, side: Side, loose: Sequence[int], to_b: Sequence[int] | None
) -> dict[int, int]:
    """Expression numbers of unpaired instructions, with paired operands as leaves."""
    found: dict[int, int] = {}
    operands, labels = side.module.operands, side.labels
    anchor, number = pairing.anchor, pairing.interner.number
    for i in loose:
        below = tuple([(anchor(o, to_b), found.get(o, -1)) for o in operands[i]])
        found[i] = number(("anchored", labels[i], below))
    return found
