"""Attribute lists: ``, key=value, key={...}`` split into verbatim values."""

from __future__ import annotations

import re

from xlagraph.graph import Attributes
from xlagraph.hlo.scan import SIGIL_NAME, MalformedError, value_end

_KEY = re.compile(r"\s*,?\s*([A-Za-z_][\w.\-]*)\s*=\s*")
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


def split_fields(text: str, start: int, end: int) -> list[tuple[str, str]]:
    """Splits ``, key=value, key=value`` between two offsets into key and value texts.

    Raises:
        MalformedError: a value is not closed, or there is something else than ``key=``.
    """
    fields: list[tuple[str, str]] = []
    pos = start
    while pos < end:
        key = _KEY.match(text, pos, end)
        if not key:
            if not text[pos:end].strip(" \t\r\n,"):
                break
            raise MalformedError("expected an attribute (key=value)", pos)
        pos = value_end(text, key.end(), end)
        fields.append((key[1], text[key.end() : pos].rstrip()))
    return fields


def read_attributes(text: str) -> Attributes:
    """Reads one attribute list, from after the operands' closing parenthesis.

    Raises:
        MalformedError: as `split_fields`.
    """
    items: list[tuple[str, str]] = []
    callees: list[tuple[str, tuple[str, ...]]] = []
    controls: tuple[str, ...] = ()
    metadata = ""
    for key, value in split_fields(text, 0, len(text)):
        if key == "metadata" and value.startswith("{"):
            metadata = value[1:-1]
        elif key in CALLEE_KEYS:
            callees.append((key, tuple(SIGIL_NAME.findall(value))))
        elif key == "control-predecessors":
            controls = tuple(SIGIL_NAME.findall(value))
        else:
            items.append((key, value))
    return Attributes(text, tuple(items), metadata, tuple(callees), controls)
