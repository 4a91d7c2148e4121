"""Header fields that speak of parameter and output positions, made comparable."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

    from xlagraph.graph import Module

_DONOR = re.compile(r"\(\s*(\d+)\s*,\s*(\{[^{}]*\})\s*\)")
_ALIAS = re.compile(r"\{\s*([\d\s,]*)\}\s*:\s*\(\s*(\d+)\s*,\s*(\{[^{}]*\})([^()]*)\)")
_FLAG = re.compile(r"\w+")

Alias = tuple[tuple[int, ...], int, str, str]
"""Output index, parameter, index in the parameter, kind."""


def header_value(
    field: str, text: str, parameters: Mapping[int, int], outputs: Mapping[int, int]
) -> object:
    """A header field as a comparable value, positions renumbered by the two mappings.

    The mappings have the positions with a partner on the other side. Entries of others keep
    out of the value: a parameter that is new is reported as new, not once more as a new donor.
    """
    if field == "buffer_donor":
        return {(parameters[n], index) for n, index in donors(text) if n in parameters}
    if field == "input_output_alias":
        return aliases(text, parameters, outputs)
    if field == "allow_spmd_sharding_propagation_to_parameters":
        return _flags(text, parameters)
    if field == "allow_spmd_sharding_propagation_to_output":
        return _flags(text, outputs)
    return text


def donors(text: str) -> frozenset[tuple[int, str]]:
    """The donated parameters of a ``buffer_donor`` field (parameter, index in its tuple)."""
    return frozenset((int(number), index) for number, index in _DONOR.findall(text))


def given_away(module: Module) -> frozenset[int]:
    """The parameters that are donated or share a buffer with an output, by number."""
    fields = module.header_fields
    aliased = {int(found[1]) for found in _ALIAS.findall(fields.get("input_output_alias", ""))}
    return frozenset(aliased | {number for number, _ in donors(fields.get("buffer_donor", ""))})


def aliases(
    text: str, parameters: Mapping[int, int], outputs: Mapping[int, int]
) -> frozenset[Alias]:
    """The entries of ``input_output_alias``; ``()`` is the output of a root that is no tuple."""
    found = set()
    for output, number, index, kind in _ALIAS.findall(text):
        path = [int(part) for part in output.replace(",", " ").split()]
        path[:1] = [outputs.get(place, -1) for place in path[:1]]
        parameter = parameters.get(int(number), -1)
        if parameter >= 0 and min(path, default=0) >= 0:
            found.add((tuple(path), parameter, index, kind.strip(" ,")))
    return frozenset(found)


def _flags(text: str, positions: Mapping[int, int]) -> object:
    """One flag for each position that has a partner; a single flag holds for all of them."""
    flags = _FLAG.findall(text)
    if len(set(flags)) == 1:
        return flags[0]
    return {(place, flags[own]) for own, place in positions.items() if own < len(flags)}
