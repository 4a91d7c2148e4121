"""Numbers, durations and plurals in words: one form for each, everywhere."""

from __future__ import annotations

from datetime import datetime, timezone
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable


_NAME = "Python "
"""What keeps its capital letter within a sentence."""


def count(number: int, noun: str, plural: str = "") -> str:
    """``1 tensor``, ``2,400 tensors``."""
    return f"{number:,} {noun if number == 1 else plural or noun + 's'}"


def duration(seconds: float) -> str:
    """Seconds for reading: ``12 ms``, ``0.25 s``, ``4.1 s``, ``2 min 40 s``, ``1.5 h``.

    What rounding brings to the next form is said in that.
    """
    if seconds >= 3599.5:
        return f"{seconds / 3600:.1f} h"
    if seconds >= 59.95:
        minutes, rest = divmod(round(seconds), 60)
        return f"{minutes} min {rest} s"
    if seconds >= 0.995:
        return f"{seconds:.1f} s"
    if seconds >= 0.0995:
        return f"{seconds:.2f} s"
    return f"{seconds * 1000:.0f} ms" if seconds else "0 s"


def moment(unix: float) -> str:
    """``2026-11-22 20:31 UTC``."""
    return datetime.fromtimestamp(unix, timezone.utc).strftime("%Y-%m-%d %H:%M UTC")


def uncapitalized(text: str) -> str:
    """The text with a small first letter, unless its first word is an abbreviation or a name."""
    is_name = text[1:2].isupper() or text.startswith(_NAME)
    return text if is_name else text[:1].lower() + text[1:]


def capitalized(text: str) -> str:
    """The text with a capital first letter."""
    return text[:1].upper() + text[1:]


def ranges(numbers: Iterable[int]) -> str:
    """Numbers as ``0-3, 7``."""
    parts: list[list[int]] = []
    for number in sorted(set(numbers)):
        if parts and number == parts[-1][1] + 1:
            parts[-1][1] = number
        else:
            parts.append([number, number])
    return ", ".join(f"{a}" if a == b else f"{a}-{b}" for a, b in parts)
