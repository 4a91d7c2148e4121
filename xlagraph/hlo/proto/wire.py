"""The outside of a file: which message it is, and where its module lies.

Only tags and lengths are looked at, in the mapped file: a buffer assignment or the arguments
of a snapshot are passed over, and a file that is cut off is noticed before anything is parsed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from xlagraph.errors import BytesError
from xlagraph.wire import BYTES, VARINT, WireField, varint, wire_fields

if TYPE_CHECKING:
    import mmap

MAX_MODULE = (1 << 31) - 1
"""Bytes of a module; the protobuf library reads no larger message."""
MAX_WRAPPERS = 3
"""Messages around a module: an HloSnapshot holds an HloProto, which holds the HloModuleProto."""

_PRINTABLE = 0x20
"""A module's name begins at or above this byte; a message begins with a tag below it."""
_NAME, _ENTRY_NAME, _COMPUTATIONS = 1, 2, 3
_MODULE_FIELDS = frozenset({2, 3, 4, 5, 6})
"""Fields that may follow the name of a module."""


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
        if first.number != _NAME or first.wire != BYTES:
            break
        for field in wire_fields(data, first.stop, stop, name):
            if field.number == _NAME:
                raise BytesError("a second module; one was expected", name, field.tag)
        start, stop = first.start, first.stop
    message = "expected an HloProto, HloModuleProto or HloSnapshot; this is another message"
    raise BytesError(message, name, start)


def _is_module(data: bytes | mmap.mmap, first: WireField) -> bool:
    """Whether a message that begins with `first` is a module, not a wrapper of one."""
    if first.number == _NAME and first.wire == BYTES:
        return first.stop > first.start and data[first.start] >= _PRINTABLE
    return first.number in _MODULE_FIELDS and first.wire in (BYTES, VARINT)


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
            length, start = varint(head, at + 1, size, "")
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
    if follows[0] & 7 not in (VARINT, BYTES):
        return None
    return text
