"""Header fields that speak of parameter and output positions, made comparable."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

from xlagraph.canon import entry
from xlagraph.canon.spelling import canonical_field, one_spelling

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from xlagraph.graph import Module

ENTRY_LAYOUT = entry.FIELD
_DONOR = re.compile(r"\(\s*(\d+)\s*,\s*(\{[^{}]*\})\s*\)")
_ALIAS = re.compile(r"\{\s*([\d\s,]*)\}\s*:\s*\(\s*(\d+)\s*,\s*(\{[^{}]*\})([^()]*)\)")
_ENTRIES = {"buffer_donor": _DONOR, "input_output_alias": _ALIAS}
MAY_ALIAS = "may-alias"
"""The kind of an alias that names none."""
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
    if field in _ENTRIES and text.count("(") != len(_ENTRIES[field].findall(text)):
        return one_spelling(text)  # not what is known here
    if field == "buffer_donor":
        return {(parameters[n], index) for n, index in donors(text) if n in parameters}
    if field == "input_output_alias":
        return aliases(text, parameters, outputs)
    if field == "allow_spmd_sharding_propagation_to_parameters":
        return _flags(text, parameters)
    if field == "allow_spmd_sharding_propagation_to_output":
        return _flags(text, outputs)
    return canonical_field(field, text)


def layouts_differ(
    a: Module, b: Module, parameters: Mapping[int, int], outputs: Mapping[int, int]
) -> bool:
    """Whether the entries ask for other layouts of paired parameters or outputs.

    What the field repeats of the instructions is left to these; the mappings are from A to B.
    """
    text_a, text_b = (m.header_fields.get(ENTRY_LAYOUT, "") for m in (a, b))
    if text_a == text_b and all(k == n for both in (parameters, outputs) for k, n in both.items()):
        return False
    asked_a, asked_b = entry.asked_layouts(a), entry.asked_layouts(b)
    if asked_a is None or asked_b is None:
        return one_spelling(text_a) != one_spelling(text_b)
    if entry.NOTHING == asked_a == asked_b:
        return False
    values_a, values_b = a.entry_computation.parameters, b.entry_computation.parameters
    return _any_differ(
        _Side(a, values_a, asked_a.parameters), _Side(b, values_b, asked_b.parameters), parameters
    ) or _any_differ(
        _Side(a, a.outputs, asked_a.outputs), _Side(b, b.outputs, asked_b.outputs), outputs
    )


class _Side(NamedTuple):
    """Parameters or outputs of a module, and the layouts asked for by position."""

    module: Module
    values: Sequence[int]
    asked: Mapping[int, str]

    def layout(self, place: int) -> str:
        return self.asked.get(place) or entry.own_layouts(self.module, self.values[place])


def _any_differ(a: _Side, b: _Side, partners: Mapping[int, int]) -> bool:
    return any(
        a.layout(k) != b.layout(n) for k, n in partners.items() if k in a.asked or n in b.asked
    )


def donors(text: str) -> frozenset[tuple[int, str]]:
    """The donated parameters of a ``buffer_donor`` field (parameter, index in its tuple)."""
    return frozenset((int(number), _tight(index)) for number, index in _DONOR.findall(text))


def _tight(index: str) -> str:
    return "".join(index.split())


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
            found.add((tuple(path), parameter, _tight(index), kind.strip(" ,") or MAY_ALIAS))
    return frozenset(found)


def _flags(text: str, positions: Mapping[int, int]) -> object:
    """One flag for each position that has a partner; a single flag holds for all of them."""
    flags = _FLAG.findall(text)
    if len(set(flags)) == 1:
        return flags[0]
    return {(place, flags[own]) for own, place in positions.items() if own < len(flags)}
