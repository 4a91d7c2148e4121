"""What was set aside between two modules, in words."""

from __future__ import annotations

from typing import TYPE_CHECKING

from xlagraph.message import count

if TYPE_CHECKING:
    from collections.abc import Iterator

    from xlagraph.diff import Noise


def noise_in_words(noise: Noise) -> Iterator[str]:
    """One phrase for each kind of noise that occurs; the modules are called A and B."""
    if noise.renamed:
        yield f"{count(noise.renamed, 'instruction')} renamed or renumbered"
    if noise.parameters_moved:
        yield f"{count(noise.parameters_moved, 'parameter')} in another order"
    if noise.loop_state:
        yield "the values that loops carry in another order"
    if noise.dead_a or noise.dead_b:
        yield f"dead instructions ({noise.dead_a} in A, {noise.dead_b} in B)"
    if noise.constants_a or noise.constants_b:
        more = f"{noise.constants_a} in A, {noise.constants_b} in B"
        yield f"constants that stand more often ({more})"
    if noise.metadata:
        yield f"{count(noise.metadata, 'instruction')} with another source line or op name"
