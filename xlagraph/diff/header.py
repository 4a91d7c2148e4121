"""Header fields that speak of parameter and output positions, made comparable."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

_DONOR = re.compile(r"\(\s*(\d+)\s*,\s*(\{[^{}]*\})\s*\)")
_ALIAS = re.compile(r"\{\s*([\d\s,]*)\}\s*:\s*\(\s*(\d+)\s*,\s*(\{[^{}]*\})([^()]*)\)")


def mapped_field(
    field: str,
    text: str,
    parameters: Mapping[int, int | None] | None,
    outputs: Mapping[int, int | None] | None,
) -> object:
    """A header field as a comparable value, positions renumbered by the two mappings.

    Entries whose parameter or output has no partner keep out of the value: a parameter that
    is new is reported as new, not once more as a new donor.
    """
    if field == "buffer_donor":
        return donors(text, parameters)
    if field == "input_output_alias":
        return aliases(text, parameters, outputs)
    return text


def donors(text: str, parameters: Mapping[int, int | None] | None = None) -> frozenset[object]:
    """The donated parameters of a ``buffer_donor`` field (parameter, index in its tuple)."""
    found = set()
    for number, index in _DONOR.findall(text):
        mapped = _map(int(number), parameters)
        if mapped is not None:
            found.add((mapped, index))
    return frozenset(found)


def aliases(
    text: str,
    parameters: Mapping[int, int | None] | None = None,
    outputs: Mapping[int, int | None] | None = None,
) -> frozenset[object]:
    """The entries of ``input_output_alias``: output index, parameter, index, kind."""
    found = set()
    for output, number, index, kind in _ALIAS.findall(text):
        path = [int(part) for part in output.replace(",", " ").split()]
        mapped = _map(int(number), parameters)
        first = _map(path[0], outputs) if path else -1
        if mapped is not None and first is not None:
            found.add(((first, *path[1:]), mapped, index, kind.strip(" ,")))
    return frozenset(found)


def _map(position: int, mapping: Mapping[int, int | None] | None) -> int | None:
    return position if mapping is None else mapping.get(position)
