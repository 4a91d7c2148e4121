"""What is computed alike, a few steps deep, from an input that both sides know by name.

Layers of a model are alike but for their weights. Where one was left out, or came in, everything
that is computed from another layer's output has another expression, and seen from a pair at the
border the next layer is the only candidate. The weights tell which layer it is.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from xlagraph.diff.pairing import Pass

if TYPE_CHECKING:
    from collections.abc import Iterator

    from xlagraph.diff.match import Side
    from xlagraph.diff.pairing import Pairing
    from xlagraph.graph import Computation

_DEPTH = 2
"""Steps down to the input: a product and a sum. What has one operand, as a broadcast, is no step
of its own. Deeper ones would reach the weights of other layers, past the residual connections."""


def pair_near_names(pairing: Pairing, ca: Computation, cb: Computation) -> None:
    """Pairs instructions that are alike down to a named input, and the only ones that are.

    The deepest first: the more of them is alike, the surer.
    """
    if not pairing.a.identities.inputs:
        return
    near_a = list(_near(pairing.a, ca))
    near_b = list(_near(pairing.b, cb))
    pairing.near_a, pairing.near_b = near_a[-1].keys(), near_b[-1].keys()
    to_b, to_a = pairing.to_b, pairing.to_a
    for found_a, found_b in zip(reversed(near_a), reversed(near_b), strict=True):
        loose_a = {x: number for x, number in found_a.items() if to_b[x] < 0}
        loose_b = {y: number for y, number in found_b.items() if to_a[y] < 0}
        count_a, count_b = Counter(loose_a.values()), Counter(loose_b.values())
        place_b = {number: y for y, number in loose_b.items()}
        for x, number in loose_a.items():
            if count_a[number] == 1 == count_b[number]:
                pairing.pair(x, place_b[number], Pass.NEAR)


def _near(side: Side, computation: Computation) -> Iterator[dict[int, int]]:
    """For each depth: numbers for how live instructions are made of named inputs, so deep."""
    labels, live, operands = side.labels, side.live, side.module.operands
    number = side.interner.number
    inputs = {i: labels[i] for i in side.identities.inputs}
    found: dict[int, int] = inputs
    for _ in range(_DEPTH):
        before, found = found, dict(inputs)
        for i in range(computation.start, computation.stop):
            below = operands[i]
            if not below or not live[i] or i == computation.root:
                continue
            numbers = before if len(below) > 1 else found
            seen = tuple([numbers.get(o, -1) for o in below])
            if max(seen) >= 0:
                found[i] = number(("near", labels[i], seen))
        yield {i: number for i, number in found.items() if operands[i]}
