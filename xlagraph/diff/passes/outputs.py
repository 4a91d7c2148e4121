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
