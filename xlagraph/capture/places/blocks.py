"""The function that a line of the program stands in, by indentation."""

from __future__ import annotations

import re
from collections.abc import Sequence

MAX_BLOCK = 60
"""Lines above a line, and below it, that are taken for its function's at most."""
_HEAD = re.compile(r"(?:async\s+def|def|class)\b")


def block_around(lines: Sequence[str], number: int) -> range:
    """The numbers of the lines of the function around a line, from its head on.

    Outside of a function those of the outermost block. A line that stands in none is alone.

    Args:
        lines: of the file.
        number: of the line, from 1; it is one of them.
    """
    column = _indentation(lines[number - 1])
    first = number
    for above in range(number - 1, max(number - MAX_BLOCK, 1) - 1, -1):
        text = lines[above - 1].strip()
        if column == 0:
            break
        if not text or text.startswith("#") or _indentation(lines[above - 1]) >= column:
            continue
        first, column = above, _indentation(lines[above - 1])
        if _HEAD.match(text):
            break
    last = number
    for below in range(number + 1, min(number + MAX_BLOCK, len(lines)) + 1):
        text = lines[below - 1].strip()
        if text and not text.startswith("#"):
            if first == number or _indentation(lines[below - 1]) <= column:
                break
            last = below
    return range(first, last + 1)


def _indentation(line: str) -> int:
    return len(line) - len(line.lstrip())
