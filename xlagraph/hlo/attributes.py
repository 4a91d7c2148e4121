"""Attribute lists: ``, key=value, key={...}`` split into verbatim values."""

from __future__ import annotations

import re

from xlagraph.graph import Attributes

_KEY = re.compile(r"\s*,?\s*([A-Za-z_][\w.\-]*)\s*=\s*")
_PLAIN = re.compile(r"[^,{}()\[\]\"'/]++")
_STRING = re.compile(r'"(?:[^"\\]|\\.)*+"' + r"|'(?:[^'\\]|\\.)*+'", re.S)
_NAME = re.compile(r"%?([A-Za-z_][\w.\-]*)")
_CLOSERS = {"{": "}", "(": ")", "[": "]"}
MAX_DEPTH = 500
"""Nesting of braces that the reader follows; XLA's own output stays far below it."""

CALLEE_KEYS = frozenset(
    {
        "to_apply",
        "calls",
        "condition",
        "body",
        "select",
        "scatter",
        "true_computation",
        "false_computation",
        "branch_computations",
        "called_computations",
        "async_wrapped_computation",
        "fusion",
        "comparator",
    }
)


class Unbalanced(ValueError):
    """The text ends, or closes, inside brackets or a string; `offset` tells where."""

    def __init__(self, message: str, offset: int):
        super().__init__(message)
        self.offset = offset


def value_end(text: str, start: int, end: int) -> int:
    """Offset just behind the value that begins at `start`: at a top-level comma or `end`.

    Linear in the length of the value.

    Raises:
        Unbalanced: brackets or a string stay open at `end`, or close without opening.
    """
    stack: list[str] = []
    pos = start
    while pos < end:
        plain = _PLAIN.match(text, pos, end)
        if plain:
            pos = plain.end()
            if pos >= end:
                break
        char = text[pos]
        if char in "\"'":
            string = _STRING.match(text, pos, end)
            if not string:
                raise Unbalanced("string is not closed", pos)
            pos = string.end()
            continue
        if char == "/" and text.startswith("/*", pos):
            close = text.find("*/", pos + 2, end)
            if close < 0:
                raise Unbalanced("comment is not closed", pos)
            pos = close + 2
            continue
        if char == "," and not stack:
            return pos
        if char in _CLOSERS:
            stack.append(_CLOSERS[char])
            if len(stack) > MAX_DEPTH:
                raise Unbalanced(f"nested deeper than {MAX_DEPTH} levels", pos)
        elif char in "})]":
            if not stack:
                raise Unbalanced(f"unexpected {char!r}", pos)
            if stack.pop() != char:
                raise Unbalanced(f"{char!r} closes another bracket", pos)
        pos += 1
    if stack:
        raise Unbalanced(f"expected {stack[-1]!r}", end)
    return end


def split_fields(text: str, start: int, end: int) -> list[tuple[str, str]]:
    """Splits ``, key=value, key=value`` between two offsets into key and value texts.

    Raises:
        Unbalanced: a value is not closed, or there is something else than ``key=``.
    """
    fields: list[tuple[str, str]] = []
    pos = start
    while pos < end:
        key = _KEY.match(text, pos, end)
        if not key:
            if not text[pos:end].strip(" \t\r\n,"):
                break
            raise Unbalanced("expected an attribute (key=value)", pos)
        pos = value_end(text, key.end(), end)
        fields.append((key[1], text[key.end() : pos].rstrip()))
    return fields


def read_attributes(text: str) -> Attributes:
    """Reads one attribute list, from after the operands' closing parenthesis.

    Raises:
        Unbalanced: as `split_fields`.
    """
    items: list[tuple[str, str]] = []
    callees: list[tuple[str, tuple[str, ...]]] = []
    controls: tuple[str, ...] = ()
    metadata = ""
    for key, value in split_fields(text, 0, len(text)):
        if key == "metadata" and value.startswith("{"):
            metadata = value[1:-1]
        elif key in CALLEE_KEYS:
            callees.append((key, tuple(_NAME.findall(value))))
        elif key == "control-predecessors":
            controls = tuple(_NAME.findall(value))
        else:
            items.append((key, value))
    return Attributes(text, tuple(items), metadata, tuple(callees), controls)
