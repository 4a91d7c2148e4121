"""Scanning helpers for every reader here: white space, comments, balanced values.

All of them work on a text and offsets, copy nothing, and take time linear in what they pass.
"""

from __future__ import annotations

import re

MAX_DEPTH = 100
"""Nesting that the readers follow; XLA's own output stays far below it."""

SIGIL_NAME = re.compile(r"%?+([A-Za-z_0-9][\w.\-]*+)")
"""A name with or without its sigil; group 1 is the bare name."""

GAP = r"(?:\s++|//[^\r\n]*+|/\*[^*]*+(?:\*(?!/)[^*]*+)*+\*/)*+"
"""Regular expression of what may stand between two tokens."""

_SPACE = re.compile(GAP)
_PLAIN = re.compile(r"(?:[^{}()\[\]\"'/]++|\{[\d,]*+\}|\[[\d,]*+\]|/\*[^*]*+\*/)++")
"""What needs no look at its brackets, numbers in brackets and comments with it."""
_STRING = re.compile(r'"[^"\\]*+(?:\\.[^"\\]*+)*+"' + r"|'[^'\\]*+(?:\\.[^'\\]*+)*+'", re.S)
_NO_BRACE = re.compile(r"[^{}\"]*+")
_LINE = re.compile(r"[^\r\n]*+")
_CLOSERS = {"{": "}", "(": ")", "[": "]"}


class MalformedError(ValueError):
    """Text that does not fit; `offset` tells where. The readers turn it into `InputError`."""

    def __init__(self, message: str, offset: int):
        super().__init__(message)
        self.offset = offset


def name_at(text: str, pos: int) -> tuple[str, int] | None:
    """The name at `pos` without its sigil, and the offset behind it; None where there is none.

    As in XLA's lexer (``HloLexer::LexIdentifier``), a colon that follows a name without a sigil
    belongs to it.
    """
    match = SIGIL_NAME.match(text, pos)
    if not match:
        return None
    end = match.end()
    return match[1], end + (text.startswith(":", end) and match.start(1) == pos)


def skip_space(text: str, pos: int) -> int:
    """Offset behind white space and comments; an open comment is not passed over."""
    match = _SPACE.match(text, pos)
    return match.end() if match else pos


def string_end(text: str, pos: int, end: int) -> int:
    """Offset behind the quoted string that begins at `pos`.

    Raises:
        MalformedError: the string is not closed.
    """
    string = _STRING.match(text, pos, end)
    if not string:
        raise MalformedError("string is not closed", pos)
    return string.end()


def dict_end(text: str, start: int, end: int) -> int:
    """Offset behind the JSON-like dictionary at `start`, of which braces and strings count only.

    As ``HloLexer::LexJsonDict`` (openxla/xla) has it.

    Raises:
        MalformedError: a brace or a string stays open at `end`.
    """
    depth, pos = 0, start
    while True:
        char = text[pos : pos + 1]
        if char == '"':
            pos = string_end(text, pos, end)
        else:
            depth += (char == "{") - (char == "}")
            pos += 1
        if not depth:
            return pos
        plain = _NO_BRACE.match(text, pos, end)
        pos = plain.end() if plain else pos
        if pos >= end:
            raise MalformedError("expected '}'", end)


def bracket_end(text: str, start: int, end: int) -> int:
    """Offset behind the bracket that closes the one at `start`.

    Raises:
        MalformedError: brackets or a string stay open at `end`, or close another one.
    """
    stack: list[str] = []
    pos = _step(text, start, end, stack)
    while stack:
        plain = _PLAIN.match(text, pos, end)
        pos = plain.end() if plain else pos
        if pos >= end:
            raise MalformedError(f"expected {stack[-1]!r}", end)
        pos = _step(text, pos, end, stack)
    return pos


def _step(text: str, pos: int, end: int, stack: list[str]) -> int:
    """Passes one string, comment, bracket or other character, keeping the open brackets."""
    char = text[pos]
    if char in "\"'":
        return string_end(text, pos, end)
    if char == "/":
        return _slash_end(text, pos, end)
    if char in _CLOSERS:
        stack.append(_CLOSERS[char])
        if len(stack) > MAX_DEPTH:
            raise MalformedError(f"nested deeper than {MAX_DEPTH} levels", pos)
    elif char in "})]":
        if not stack:
            raise MalformedError(f"unexpected {char!r}", pos)
        if stack[-1] != char:
            raise MalformedError(f"expected {stack[-1]!r}, found {char!r}", pos)
        stack.pop()
    return pos + 1


def _slash_end(text: str, pos: int, end: int) -> int:
    if text.startswith("/*", pos):
        close = text.find("*/", pos + 2, end)
        if close < 0:
            raise MalformedError("comment is not closed", pos)
        return close + 2
    if text.startswith("//", pos):
        line = _LINE.match(text, pos, end)
        return line.end() if line else end
    return pos + 1
