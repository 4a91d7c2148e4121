"""What is not compared: large constants left out of texts, configuration left out of protobufs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from xlagraph.diff.stated import ELIDED
from xlagraph.message import Message, count, say

if TYPE_CHECKING:
    from xlagraph.diff import Diff
    from xlagraph.diff.match import Side


def not_compared(diff: Diff) -> tuple[Message, ...]:
    """Sentences on what nobody knows to be equal, because a source leaves it out."""
    return tuple(filter(None, (elided_constants(diff), unstated_fields(diff))))


def unstated_fields(diff: Diff) -> Message:
    """Says which header fields a protobuf has no place for."""
    if not diff.a.unstated:
        return say()
    return say(
        "Not compared: replica_count, num_partitions and other configuration, which a protobuf"
        " does not hold; the text that XLA dumps beside it does."
    )


def elided_constants(diff: Diff) -> Message:
    """Says how many constants the texts leave out: nobody knows whether these are equal."""
    number = min(_elided(diff.match.a), _elided(diff.match.b))
    if not number:
        return say()
    return say(
        f"Not compared: {count(number, 'large constant')} that the texts leave out ({ELIDED}); "
        "XLA writes them with --xla_dump_large_constants."
    )


def _elided(side: Side) -> int:
    module = side.module
    return sum(
        1
        for i, payload in module.payloads.items()
        if payload == ELIDED and module.opcodes[i] == "constant" and side.live[i]
    )
