"""How much one input may hold: one limit for files, what they unfold to, and stored graphs."""

from __future__ import annotations

import re
from contextvars import ContextVar

from xlagraph.errors import XlagraphError

DEFAULT_MAX_INPUT = 4_000_000_000
"""Bytes, after decompression. A module of 100,000 instructions has some 30 MB."""
_UNITS = {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30, "T": 1 << 40}
_BYTES = re.compile(r"([0-9]{1,18})\s*([KMGT]?)(?:i?B)?", re.IGNORECASE)
_max_input = ContextVar("max_input", default=DEFAULT_MAX_INPUT)


class TooLargeError(XlagraphError):
    """An input that holds more than the limit."""

    def __init__(self, name: str) -> None:
        super().__init__(
            f"{name}: holds more than {max_input():,} bytes, the limit; --max-input raises it"
        )


def max_input() -> int:
    """Bytes that one input may hold, unfolded."""
    return _max_input.get()


def set_max_input(size: int) -> None:
    """Change the limit, in bytes, from here on."""
    _max_input.set(size)


def check_size(name: str, size: int) -> None:
    """Refuse an input that holds, or says that it holds, so many bytes.

    Raises:
        TooLargeError: that is more than the limit.
    """
    if size > max_input():
        raise TooLargeError(name)


def bytes_from(text: str) -> int | None:
    """``1000``, ``64K``, ``512M``, ``2G`` in bytes, by powers of 1024; None if it is none."""
    match = _BYTES.fullmatch(text.strip())
    return int(match[1]) * _UNITS[match[2].upper()] if match is not None else None
