"""What is not compared: large constants left out of texts, configuration left out of protobufs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from xlagraph.canon.labels import bare_shape
from xlagraph.diff.stated import ELIDED
from xlagraph.message import A, B, Message, count, join, say

if TYPE_CHECKING:
    from xlagraph.diff import Diff
    from xlagraph.diff.match import Side

MAX_TOLD = 3
"""Constants of one side that are named."""


def not_compared(diff: Diff) -> tuple[Message, ...]:
    """Sentences on what nobody knows to be equal, because a source leaves it out."""
    constants = left_out_alone(diff) or elided_constants(diff)
    return tuple(filter(None, (constants, unstated_fields(diff))))


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


def left_out_alone(diff: Diff) -> Message:
    """Says that each module has constants of its own which the texts leave out, if it is so.

    One may be the other in another form, as a mask of numbers is one of truth values: then both
    compute the same, and no comparison of the texts can tell.
    """
    sides = (
        (A, diff.match.a, diff.differing_in_a),
        (B, diff.match.b, diff.differing_in_b),
    )
    shapes = [
        [bare_shape(own.module, i) for i in sorted(some) if _is_elided(own, i)]
        for _, own, some in sides
    ]
    if not all(shapes):
        return say()
    told = [
        say(join(dict.fromkeys(own), MAX_TOLD), " of ", side)
        for (side, _, _), own in zip(sides, shapes, strict=True)
    ]
    return say(
        "Whether both compute the same is not known: the texts leave out (",
        ELIDED,
        ") the constants ",
        join(told),
        ". Write them with --xla_dump_large_constants, or with "
        "as_hlo_text(print_large_constants=True), and compare again.",
    )


def _elided(side: Side) -> int:
    return sum(_is_elided(side, i) for i in side.module.payloads)


def _is_elided(side: Side, i: int) -> bool:
    module = side.module
    is_left_out = module.opcodes[i] == "constant" and module.payloads.get(i) == ELIDED
    return is_left_out and bool(side.live[i])
