"""Inputs and outputs with the same recorded name."""

from __future__ import annotations

from typing import TYPE_CHECKING

from xlagraph.diff.pairing import Pass

if TYPE_CHECKING:
    from xlagraph.diff.pairing import Pairing


def pair_by_name(pairing: Pairing) -> None:
    """Pairs inputs that are the same tensor, and outputs if they are also made alike."""
    a, b = pairing.a, pairing.b
    there = {name: y for y, name in b.identities.inputs.items()}
    for x, name in a.identities.inputs.items():
        pairing.pair(x, there[name], Pass.NAME)
    there = {name: y for y, name in b.identities.outputs.items()}
    for x, name in a.identities.outputs.items():
        if a.labels[x] == b.labels[there[name]]:
            pairing.pair(x, there[name], Pass.NAME)
