"""Record format v1 of stream logs: one JSON object a line, in the order things were called.

docs/streams.md describes the fields. A record stays the dictionary that it was read as: the
analysis of a long log touches each once. What it then relies on is checked where it fails
(`fault`), so that a wrong field is named with its place and costs nothing where all is well.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable

VERSION = 1

Record = dict[str, Any]
"""One line of a log; `FIELDS` has the fields of each kind."""

IRREGULAR = -1
"""The stride of a range that is only the bounding box of what was accessed."""

CREATIONS = frozenset({"st_new", "ev_new"})
"""Kinds that say nothing that their first use does not say."""

LARGEST = (1 << 64) - 1


UNREADABLE = (KeyError, TypeError, ValueError, IndexError, AttributeError)
"""What goes wrong where a record that was not checked has not the fields it should have."""


class Fault(NamedTuple):
    """What is wrong with a record."""

    field: str
    """The field's name; ``""`` for the record as a whole."""
    expected: str


def _is_text(value: object) -> bool:
    return isinstance(value, str)


def _is_whole(value: object) -> bool:
    return type(value) is int and -LARGEST <= value <= LARGEST


def _is_optional_text(value: object) -> bool:
    return value is None or isinstance(value, str)


def _is_optional_whole(value: object) -> bool:
    return value is None or _is_whole(value)


def _is_range(value: object) -> bool:
    if not isinstance(value, list) or len(value) not in (3, 6):
        return is_unseen(value)
    if not all(map(_is_whole, value)) or value[1] < 0 or value[2] < 0:
        return False
    if value[1] + value[2] > LARGEST:
        return False
    return len(value) == 3 or (value[3] >= 0 and value[4] >= IRREGULAR and value[5] >= 0)


def is_unseen(value: object) -> bool:
    """Whether a range is that of a tensor without memory, as compilers trace with."""
    return isinstance(value, list) and len(value) == 1 and isinstance(value[0], str)


def without_unseen(record: Record) -> Record | None:
    """The record without ranges of tensors that have no memory; None if it has none of those."""
    kept = {
        field: [item for item in record[field] if not is_unseen(item)]
        for field in ("r", "w", "outs")
        if isinstance(record.get(field), list)
    }
    return {**record, **kept} if any(len(kept[f]) < len(record[f]) for f in kept) else None


def _are_ranges(value: object) -> bool:
    return isinstance(value, list) and all(map(_is_range, value))


_WHOLE = (_is_whole, "a whole number")
_TEXT = (_is_text, "a text")
_OPTIONAL_TEXT = (_is_optional_text, "a text or null")
_OPTIONAL_WHOLE = (_is_optional_whole, "a whole number or null")
_RANGE = (
    _is_range,
    "a range [device, pointer, bytes] or [device, pointer, extent, run, stride, count]",
)
_RANGES = (_are_ranges, f"a list of ranges, each {_RANGE[1][2:]}")

_Check = tuple["Callable[[object], bool]", str]
_Fields = dict[str, _Check]

_PLACE: _Fields = {"at": _OPTIONAL_TEXT}
_NODE: _Fields = {"q": _OPTIONAL_WHOLE, "param": _OPTIONAL_TEXT}

REQUIRED: dict[str, _Fields] = {
    "meta": {"v": _WHOLE},
    "stream": {"s": _WHOLE, "d": _WHOLE},
    "op": {"i": _WHOLE, "t": _WHOLE, "s": _WHOLE, "op": _TEXT, "r": _RANGES, "w": _RANGES},
    "out": {"i": _WHOLE, "t": _WHOLE, "s": _WHOLE, "w": _RANGES},
    "record": {"t": _WHOLE, "e": _WHOLE, "s": _WHOLE},
    "wait": {"t": _WHOLE, "e": _WHOLE, "s": _WHOLE},
    "ev_del": {"e": _WHOLE},
    "sync_dev": {"t": _WHOLE},
    "sync_st": {"t": _WHOLE, "s": _WHOLE},
    "sync_ev": {"t": _WHOLE, "e": _WHOLE},
    "tell": {"t": _WHOLE, "m": _WHOLE},
    "hear": {"t": _WHOLE, "m": _WHOLE},
    "alloc": {"t": _WHOLE, "p": _WHOLE, "n": _WHOLE, "s": _WHOLE},
    "free": {"t": _WHOLE, "p": _WHOLE},
    "rs": {"t": _WHOLE, "r": _RANGE, "s": _WHOLE},
    "node": {"t": _WHOLE, "name": _TEXT, "s": _WHOLE, "r": _RANGES},
    "mark": {"t": _WHOLE, "name": _TEXT},
    "coverage": {},
}
"""The fields without which a record of a kind means nothing. Other kinds are counted."""

OPTIONAL: dict[str, _Fields] = {
    "op": {
        **_PLACE,
        **_NODE,
        "node": _OPTIONAL_TEXT,
        "fwd_at": _OPTIONAL_TEXT,
        "s_launch": _OPTIONAL_WHOLE,
        "outs": _RANGES,
        "bucket": _OPTIONAL_TEXT,
    },
    "sync_dev": {"d": _OPTIONAL_WHOLE},
    "sync_ev": {"via": _OPTIONAL_TEXT},
    "alloc": _PLACE,
    "free": _PLACE,
    "rs": _PLACE,
    "node": _NODE,
    "mark": {
        **_PLACE,
        "s": _OPTIONAL_WHOLE,
        "r": _RANGES,
        "bucket": _OPTIONAL_TEXT,
        "tensor": _OPTIONAL_TEXT,
    },
}
"""Fields that say more, where a recorder knows it."""


def fault(record: object) -> Fault | None:
    """What is wrong with a parsed line, or None; fields that v1 does not name are ignored."""
    if not isinstance(record, dict):
        return Fault("", 'a JSON object such as {"k":"op", ...}')
    kind = record.get("k")
    if not isinstance(kind, str):
        return Fault("k" if "k" in record else "", 'the kind of record, such as "k":"op"')
    required = REQUIRED.get(kind, {})
    if kind == "mark" and record.get("name") == "backward_begin":
        required = {**required, "s": _WHOLE}  # the stream that backward is called on
    for field, (holds, expected) in required.items():
        if field not in record:
            return Fault("", f'a field "{field}" ({expected}) in this "{kind}" record')
        if not holds(record[field]):
            return Fault(field, f'{expected} for "{field}" in this "{kind}" record')
    for field, (holds, expected) in OPTIONAL.get(kind, {}).items():
        if field in record and not holds(record[field]):
            return Fault(field, f'{expected} for "{field}" in this "{kind}" record')
    return None


def offset_of(line: str, field: str) -> int:
    """Where the value of a top-level field begins in a line that parses; 0 without a field."""
    decoder = json.JSONDecoder()
    at = line.find("{") + 1
    while field:
        at = _blank(line, at)
        if line[at] != '"':
            break
        name, at = decoder.raw_decode(line, at)
        at = _blank(line, _blank(line, at) + 1)
        if name == field:
            return at
        _, at = decoder.raw_decode(line, at)
        at = _blank(line, at) + 1
    return line.find("{") if "{" in line else 0


def _blank(line: str, at: int) -> int:
    while line[at].isspace():
        at += 1
    return at
