"""Large constants, which XLA leaves out of its text: ``constant({...})``."""

from __future__ import annotations

from typing import TYPE_CHECKING

from xlagraph.message import Message, count, say

if TYPE_CHECKING:
    from xlagraph.diff import Diff
    from xlagraph.diff.match import Side

ELIDED = "{...}"


def elided_constants(diff: Diff) -> Message:
    """Says how many constants both texts leave out: nobody knows whether these are equal."""
    number = min(_elided(diff.match.a), _elided(diff.match.b))
    if not number:
        return say()
    return say(
        f" Not compared: {count(number, 'large constant')} that the texts leave out ({ELIDED}); "
        "XLA writes them with --xla_dump_large_constants."
    )


def _elided(side: Side) -> int:
    module = side.module
    return sum(
        1
        for i, payload in module.payloads.items()
        if payload == ELIDED and module.opcodes[i] == "constant" and side.live[i]
    )
