"""The fields of a protobuf message, by their tags and lengths alone.

Encoding: https://protobuf.dev/programming-guides/encoding/.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from xlagraph.errors import BytesError

if TYPE_CHECKING:
    import mmap
    from collections.abc import Iterator

VARINT, FIXED64, BYTES, FIXED32 = 0, 1, 2, 5
"""Wire types; groups are not known to XLA's messages."""


class WireField(NamedTuple):
    """One field: its number, its wire type, and where it and its value stand."""

    number: int
    wire: int
    tag: int
    """Offset of the field."""
    start: int
    """Offset of its value; behind the length, where there is one."""
    stop: int


def wire_fields(data: bytes | mmap.mmap, start: int, stop: int, name: str) -> Iterator[WireField]:
    """The fields between two offsets, in order.

    Raises:
        BytesError: the bytes are no message, or a field reaches past the end.
    """
    pos = start
    while pos < stop:
        tag_at = pos
        tag, pos = varint(data, pos, stop, name)
        number, wire = tag >> 3, tag & 7
        if not number:
            raise BytesError("field number 0; this is no protobuf", name, tag_at)
        begin = pos
        if wire == VARINT:
            _, pos = varint(data, pos, stop, name)
        elif wire == BYTES:
            size, begin = varint(data, pos, stop, name)
            pos = begin + size
        elif wire in (FIXED32, FIXED64):
            pos += 4 if wire == FIXED32 else 8
        else:
            raise BytesError(f"wire type {wire}; this is no protobuf of XLA's", name, tag_at)
        if pos > stop:
            message = (
                f"cut off: field {number} reaches to byte {pos}, the message ends at byte {stop}"
            )
            raise BytesError(message, name, tag_at)
        yield WireField(number, wire, tag_at, begin, pos)


def varint(data: bytes | mmap.mmap, pos: int, stop: int, name: str) -> tuple[int, int]:
    """The number at an offset, and where it ends.

    Raises:
        BytesError: it is cut off, or too long.
    """
    value = shift = 0
    begin = pos
    while True:
        if pos >= stop:
            raise BytesError("cut off within a number", name, begin)
        byte = data[pos]
        pos += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, pos
        shift += 7
        if shift > 63:
            raise BytesError("a number of more than ten bytes; this is no protobuf", name, begin)
