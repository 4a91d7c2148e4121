"""Outputs, by their places among the others."""

from __future__ import annotations

from typing import TYPE_CHECKING

from xlagraph.diff.align import aligned, filled
from xlagraph.diff.pairing import Pass
from xlagraph.diff.passes.neighbours import pair_neighbours

if TYPE_CHECKING:
    from collections.abc import Sequence

    from xlagraph.diff.match import Side
    from xlagraph.diff.pairing import Pairing


def pair_outputs_by_place(pairing: Pairing) -> None:
    """Pairs outputs whose neighbours are paired, if they do the same with something else."""
    for x, y in aligned_outputs(pairing, by_place=True).items():
        if pairing.a.labels[x] == pairing.b.labels[y]:
            pairing.pair(x, y, Pass.OUTPUT)
    pair_neighbours(pairing)


def pair_outputs_on_the_way(pairing: Pairing) -> None:
    """Pairs an output of one side with the same expression that the other computes on the way.

    With several of them, over inputs of which nothing is known, the first is as good as any.
    """
    a, b = pairing.a, pairing.b
    found = [
        *_on_the_way(a, b, pairing.to_b, pairing.to_a),
        *((x, y) for y, x in _on_the_way(b, a, pairing.to_a, pairing.to_b)),
    ]
    for x, y in found:
        if pairing.pair(x, y, Pass.OUTPUT):
            pairing.ambiguous += 1
            pair_neighbours(pairing)


def _on_the_way(
    side: Side, other: Side, partners: Sequence[int], others: Sequence[int]
) -> list[tuple[int, int]]:
    numbers = side.expressions
    loose = {numbers[i]: i for i in side.outputs if partners[i] < 0 and not side.closed[i]}
    if not loose:
        return []
    entry = other.module.entry_computation
    first: dict[int, int] = {}
    for i in range(entry.start, entry.stop):
        if others[i] < 0 and i not in other.outputs and other.expressions[i] in loose:
            first.setdefault(other.expressions[i], i)
    return [(loose[number], i) for number, i in first.items()]


def aligned_outputs(pairing: Pairing, *, by_place: bool = False) -> dict[int, int]:
    """Outputs of A to those of B at the corresponding place, where they may be the same.

    `by_place` adds those between them, where both sides have equally many.
    """
    values_a, values_b = list(pairing.a.outputs), list(pairing.b.outputs)
    pairs = aligned(
        [_key(pairing, pairing.a, i, pairing.to_b) for i in values_a],
        [_key(pairing, pairing.b, i, None) for i in values_b],
    )
    if by_place:
        pairs = filled(pairs, len(values_a), len(values_b))
    return {values_a[j]: values_b[k] for j, k in pairs}


def _key(pairing: Pairing, side: Side, i: int, to_b: Sequence[int] | None) -> tuple[int, int]:
    anchor = pairing.anchor(i, to_b)
    return (anchor, -1 if anchor >= 0 else side.expressions[i])
