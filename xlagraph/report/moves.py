"""Where the tensors of a coalesced collective stand in the other module."""

from __future__ import annotations

from typing import TYPE_CHECKING

from xlagraph.facts.distributed.buckets import origin
from xlagraph.tensors import Tensor

if TYPE_CHECKING:
    from collections.abc import Sequence

    from xlagraph.cause.model import BucketRow, Explanation
    from xlagraph.graph import Module

Seat = tuple[int, int]
"""Bucket, and position in it."""


def bucket_partners(explanation: Explanation) -> tuple[dict[Seat, Seat], dict[Seat, Seat]]:
    """For each bucketed tensor its place on the other side: A's to B's, and back.

    Tensors with a name of their own are paired by name, the others by the instructions that
    made them.
    """
    match = explanation.diff.match
    rows_a, rows_b = explanation.buckets_a, explanation.buckets_b
    by_name = _seats(rows_a), _seats(rows_b)
    forward: dict[Seat, Seat] = {}
    for name, places in by_name[0].items():
        forward.update(zip(places, by_name[1].get(name, ()), strict=False))
    made_b = {y: place for place, y in _makers(match.b.module, rows_b).items()}
    taken = set(forward.values())
    for place, x in _makers(match.a.module, rows_a).items():
        partner = made_b.get(match.to_b[x])
        if place not in forward and partner is not None and partner not in taken:
            forward[place] = partner
            taken.add(partner)
    return forward, {b: a for a, b in forward.items()}


def _seats(rows: Sequence[BucketRow]) -> dict[Tensor, list[Seat]]:
    """The seats of the tensors that a capture knows by name."""
    seats: dict[Tensor, list[Seat]] = {}
    for k, row in enumerate(rows):
        for position, tensor in enumerate(row.tensors):
            if isinstance(tensor, Tensor):
                seats.setdefault(tensor, []).append((k, position))
    return seats


def _makers(module: Module, rows: Sequence[BucketRow]) -> dict[Seat, int]:
    """The instruction that made each bucketed tensor."""
    return {
        (k, position): origin(module, operand)
        for k, row in enumerate(rows)
        for position, operand in enumerate(module.operands[row.instruction][: len(row.tensors)])
    }
