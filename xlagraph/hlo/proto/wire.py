"""The outside of a file: which message it is, and where its module lies.

Only tags and lengths are looked at, in the mapped file: a buffer assignment or the arguments
of a snapshot are passed over, and a file that is cut off is noticed before anything is parsed.
Encoding: https://protobuf.dev/programming-guides/encoding/.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from xlagraph.errors import BytesError

if TYPE_CHECKING:
    import mmap
    from collections.abc import Iterator

MAX_MODULE = (1 << 31) - 1
"""Bytes of a module; the protobuf library reads no larger message."""
MAX_WRAPPERS = 3
"""Messages around a module: an HloSnapshot holds an HloProto, which holds the HloModuleProto."""

_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5
_PRINTABLE = 0x20
"""A module's name begins at or above this byte; a message begins with a tag below it."""
_NAME, _ENTRY_NAME, _COMPUTATIONS = 1, 2, 3
_MODULE_FIELDS = frozenset({2, 3, 4, 5, 6})
"""Fields that may follow the name of a module."""


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
    """The fields between two offsets, in order; groups are not known to XLA's messages.

    Raises:
        BytesError: the bytes are no message, or a field reaches past the end.
    """
    pos = start
    while pos < stop:
        tag_at = pos
        tag, pos = _varint(data, pos, stop, name)
        number, wire = tag >> 3, tag & 7
        if not number:
            raise BytesError("field number 0; this is no protobuf", name, tag_at)
        begin = pos
        if wire == _VARINT:
            _, pos = _varint(data, pos, stop, name)
        elif wire == _BYTES:
            size, begin = _varint(data, pos, stop, name)
            pos = begin + size
        elif wire in (_FIXED32, _FIXED64):
            pos += 4 if wire == _FIXED32 else 8
        else:
            raise BytesError(f"wire type {wire}; this is no protobuf of XLA's", name, tag_at)
        if pos > stop:
            message = (
                f"cut off: field {number} reaches to byte {pos}, the message ends at byte {stop}"
            )
            raise BytesError(message, name, tag_at)
        yield WireField(number, wire, tag_at, begin, pos)


def _varint(data: bytes | mmap.mmap, pos: int, stop: int, name: str) -> tuple[int, int]:
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


def module_span(data: bytes | mmap.mmap, name: str) -> tuple[int, int]:
    """Where the HloModuleProto lies in a file that is one, or wraps one.

    Raises:
        BytesError: the file is cut off, is another message, or is too large.
    """
    start, stop = 0, len(data)
    for _ in range(MAX_WRAPPERS):
        first = next(wire_fields(data, start, stop, name), None)
        if first is None:
            break
        if _is_module(data, first):
            if stop - start > MAX_MODULE:
                message = f"a module of {stop - start} bytes; at most {MAX_MODULE} can be read"
                raise BytesError(message, name, start)
            return start, stop
        if first.number != _NAME or first.wire != _BYTES:
            break
        for field in wire_fields(data, first.stop, stop, name):
            if field.number == _NAME:
                raise BytesError("a second module; one was expected", name, field.tag)
        start, stop = first.start, first.stop
    message = "expected an HloProto, HloModuleProto or HloSnapshot; this is another message"
    raise BytesError(message, name, start)


def _is_module(data: bytes | mmap.mmap, first: WireField) -> bool:
    """Whether a message that begins with `first` is a module, not a wrapper of one."""
    if first.number == _NAME and first.wire == _BYTES:
        return first.stop > first.start and data[first.start] >= _PRINTABLE
    return first.number in _MODULE_FIELDS and first.wire in (_BYTES, _VARINT)


def looks_like_module(head: bytes) -> str | None:
    """The module's name where the first bytes of a file are those of an HLO protobuf, or None.

    The file may be cut off anywhere. A module begins with its name and goes on with the name
    of its entry, its computations or its id; two messages may lie around it.
    """
    at, size = 0, len(head)
    for _ in range(MAX_WRAPPERS):
        if head[at : at + 1] != b"\n":
            return None
        try:
            length, start = _varint(head, at + 1, size, "")
        except BytesError:
            return None
        if head[start : start + 1] >= b" ":
            return _module_name(head, start, start + length)
        at = start
    return None


def _module_name(head: bytes, start: int, stop: int) -> str | None:
    try:
        text = head[start:stop].decode()
    except UnicodeDecodeError:
        return None
    follows = head[stop : stop + 1]
    if not text.isprintable() or not follows or follows[0] >> 3 not in _MODULE_FIELDS:
        return None
    if follows[0] & 7 not in (_VARINT, _BYTES):
        return None
    return text
