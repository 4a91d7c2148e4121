"""Large constants, which XLA leaves out of its text: ``constant({...})``."""

from __future__ import annotations

from typing import TYPE_CHECKING

from xlagraph.cause.finding import count
from xlagraph.diff.stated import ELIDED

if TYPE_CHECKING:
    from xlagraph.diff import Diff
    from xlagraph.diff.match import Side

PROTOBUF = (
    " Not compared: replica_count, num_partitions and other configuration, which a protobuf does"
    " not hold; the text that XLA dumps beside it does."
)


def not_compared(diff: Diff) -> str:
    """Says what nobody knows to be equal, because a source leaves it out."""
    return elided_constants(diff) + (PROTOBUF if diff.a.unstated else "")


def elided_constants(diff: Diff) -> str:
    """Says how many constants the texts leave out: nobody knows whether these are equal."""
    number = min(_elided(diff.match.a), _elided(diff.match.b))
    if not number:
        return ""
    return (
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
