"""Attribute lists: ``, key=value, key={...}`` split into verbatim values."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

from xlagraph.graph import Attributes
from xlagraph.hlo.scan import (
    GAP,
    SIGIL_NAME,
    MalformedError,
    bracket_end,
    dict_end,
    skip_space,
    string_end,
)
from xlagraph.hlo.shapes import parse_shape

if TYPE_CHECKING:
    from collections.abc import Iterable

_KEY = re.compile(r"([A-Za-z_][\w.\-]*+)\s*+=")
_BARE = re.compile(r"[^\s,{}()\[\]\"'/<]++")
_MESH = re.compile(
    r"@?[\w.\-]*+(?:<[^<>{}\"\n]*+>|\[[^\[\]\n]*+\])"
    r"(?:, device_ids=\((?:[^()\n]|\([^()\n]*+\))*+\))?+[ \t]*+(?=\{)"
)
"""A mesh before its axes, as in ``mesh['x'=2,'y'=2], device_ids=([2,2]T(1,0)) {'x'}``."""
_IOTA = re.compile(rf"{GAP}<={GAP}(?=\[)|{GAP}T{GAP}(?=\()")
"""What may stand, with space around it, between the brackets of ``[2,2]<=[4]T(1,0)``."""
_COMMENT = re.compile(r"/\*.*?\*/|//[^\n]*", re.S)
_NAMES = re.compile(
    r"%?+[A-Za-z_0-9][\w.\-]*+:?+|\{(?:[\s,%\w.\-]++|//[^\n]*+|/\*[^*]*+(?:\*(?!/)[^*]*+)*+\*/)*+\}"
)
_QUOTED = r'"[^"\\]*+(?:\\.[^"\\]*+)*+"'
_INNER = r"[^{}()\[\]\"'/]++"
_FLAT = rf"\{{(?:{_INNER}|{_QUOTED})*+\}}"
_NESTED = rf"\{{(?:{_INNER}|{_QUOTED}|{_FLAT})*+\}}"
_COMMON = re.compile(
    rf"(?!literal=)([A-Za-z_][\w.\-]*+)=({_NESTED}|{_QUOTED}|[^\s,{{}}()\[\]\"'/<]++)(?:, |\Z)",
    re.S,
)

CONTROL_KEY = "control-predecessors"
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
_LATER = {"body": 1, "false_computation": 1, "scatter": 1}
"""The callee that XLA prints second, where an instruction has two."""


class Field(NamedTuple):
    """One ``key=value`` in a text, as offsets."""

    key: str
    start: int
    end: int


def parse_fields(
    text: str, pos: int, end: int, *, in_list: bool = False
) -> tuple[list[Field], int]:
    """Reads ``, key=value`` as often as it comes; returns the fields and the offset behind.

    With `in_list` a comma may also begin something else, which is left alone.

    Raises:
        MalformedError: a comma is not followed by ``key=value``, or a value is not closed.
    """
    fields: list[Field] = []
    while True:
        at = skip_space(text, pos)
        if at >= end or text[at] != ",":
            return fields, pos
        at = skip_space(text, at + 1)
        key = _KEY.match(text, at, end)
        if not key and in_list:
            return fields, pos
        if not key:
            raise MalformedError("expected an attribute (key=value)", min(at, end))
        start = skip_space(text, key.end())
        pos = field_value_end(text, key[1], start, end)
        fields.append(Field(key[1], start, pos))


def field_value_end(text: str, key: str, start: int, end: int) -> int:
    """Offset behind the value of an attribute: brackets, strings and words in one run.

    Raises:
        MalformedError: there is no value, or it is not closed.
    """
    if key == "literal" and not text.startswith("(", start):  # a tuple has its shapes inside
        _, start = parse_shape(text, start, end)
        start = skip_space(text, start)
    if key == "backend_config" and text.startswith("{", start):
        return dict_end(text, start, end)
    mesh = _MESH.match(text, start, end)
    pos = mesh.end() if mesh else start
    while pos < end:
        bare = _BARE.match(text, pos, end)
        pos = bare.end() if bare else pos
        char = text[pos : pos + 1]
        if char and char in "{([":
            pos = bracket_end(text, pos, end)
            iota = _IOTA.match(text, pos, end)
            pos = iota.end() if iota else pos
        elif char and char in "\"'":
            pos = string_end(text, pos, end)
        elif char == "<" or (char == "/" and text[pos + 1 : pos + 2] not in ("*", "/")):
            pos += 1
        else:
            break
    if pos == start:
        raise MalformedError(f"expected the value of {key!r}", min(start, end))
    return min(pos, end)


def is_names(value: str) -> bool:
    """Whether a value is a name, or names in braces."""
    return bool(_NAMES.fullmatch(value))


def names_in(text: str) -> tuple[str, ...]:
    """The names in a list such as ``{%a, /*index=1*/%b}``, without sigils."""
    if "/" in text:
        text = _COMMENT.sub("", text)
    return tuple(SIGIL_NAME.findall(text))


def read_attributes(text: str) -> Attributes:
    """Reads one attribute list, from after the operands' closing parenthesis to its end.

    Raises:
        MalformedError: as `parse_fields`, or something else stands behind the list.
    """
    pairs: list[tuple[str, str]] = _COMMON.findall(text, 2)
    if sum(len(key) + len(value) + 3 for key, value in pairs) != len(text):
        fields, end = parse_fields(text, 0, len(text))
        rest = skip_space(text, end)
        if rest != len(text):
            raise MalformedError("expected ',' and an attribute, or the end of the line", rest)
        pairs = [(field.key, text[field.start : field.end]) for field in fields]
    for key, value in pairs:
        if (key in CALLEE_KEYS or key == CONTROL_KEY) and not is_names(value):
            raise MalformedError(f"expected names as the value of {key!r}", text.find(value))
    return make_attributes(text, pairs)


def make_attributes(text: str, pairs: Iterable[tuple[str, str]]) -> Attributes:
    """Sorts the fields of an attribute list by what they are."""
    items: list[tuple[str, str]] = []
    callees: list[tuple[str, tuple[str, ...]]] = []
    controls: tuple[str, ...] = ()
    metadata = ""
    for key, value in pairs:
        if key == "metadata" and value.startswith("{"):
            metadata = value[1:-1]
        elif key in CALLEE_KEYS:
            callees.append((key, names_in(value)))
        elif key == CONTROL_KEY:
            controls = names_in(value)
        else:
            items.append((key, value))
    if len(callees) > 1:
        callees.sort(key=lambda called: _LATER.get(called[0], 0))
    return Attributes(text, tuple(items), metadata, tuple(callees), controls)
