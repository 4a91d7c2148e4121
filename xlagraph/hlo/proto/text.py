"""Strings and numbers as XLA's text prints them."""

from __future__ import annotations

import re
from array import array
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

_ESCAPES = {
    0x0A: "\\n",
    0x0D: "\\r",
    0x09: "\\t",
    0x22: '\\"',
    0x27: "\\'",
    0x5C: "\\\\",
}
_ESCAPE_OF = [
    _ESCAPES.get(byte) or (chr(byte) if 0x20 <= byte < 0x7F else f"\\{byte:03o}")
    for byte in range(256)
]
_NEEDS_ESCAPE = re.compile(rb"[^ !#-&(-\[\]-~]")
_JSON_DICT = re.compile(rb"\s*\{(?:[^{}\"]++|\"(?:[^\"\\\n]|\\[^\n])*+\")*+")
_JSON_STEP = re.compile(rb"[{}](?:[^{}\"]++|\"(?:[^\"\\\n]|\\[^\n])*+\")*+")


def escaped(data: bytes) -> str:
    """C escapes, as absl's CEscape writes them: octal for what is not printable ASCII."""
    if not _NEEDS_ESCAPE.search(data):
        return data.decode("ascii")
    return "".join(map(_ESCAPE_OF.__getitem__, data))


def quoted(data: bytes) -> str:
    """A string in double quotes, escaped."""
    return f'"{escaped(data)}"'


def decoded(data: bytes) -> str:
    """Bytes as they would stand in a text; those that are not UTF-8 stay distinct."""
    return data.decode("utf-8", "surrogateescape")


def is_json_dict(data: bytes) -> bool:
    """Whether XLA prints a string without quotes: braces that close, and nothing behind them."""
    step = _JSON_DICT.match(data)
    if not step:
        return False
    depth, pos = 1, step.end()
    while depth and (step := _JSON_STEP.match(data, pos)):
        depth += 1 if data[pos] == 0x7B else -1
        pos = step.end() if depth else pos + 1
    return not depth and not data[pos:].strip()


def json_or_quoted(data: bytes) -> str:
    """A backend config or frontend attribute: JSON verbatim, other strings quoted."""
    return decoded(data) if is_json_dict(data) else quoted(data)


def braced(values: Iterable[int]) -> str:
    """Numbers in braces: ``{0,1}``."""
    return f"{{{','.join(map(str, values))}}}"


def spaced(values: Iterable[int]) -> str:
    """Numbers in braces with spaces, as a shape index is printed: ``{0, 1}``."""
    return f"{{{', '.join(map(str, values))}}}"


def flag(*, value: bool) -> str:
    """``true`` or ``false``."""
    return "true" if value else "false"


def short_float(value: float) -> str:
    """A float32 attribute: six digits as XLA prints them, more where six do not tell it."""
    text = f"{value:.6g}"
    return text if array("f", [float(text)])[0] == value else f"{value:.9g}"


def short_double(value: float) -> str:
    """A double attribute: six digits as XLA prints them, more where six do not tell it."""
    text = f"{value:.6g}"
    return text if float(text) == value else f"{value:.17g}"
