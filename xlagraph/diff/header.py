"""Header fields that speak of parameter and output positions, made comparable."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

from xlagraph.canon import entry
from xlagraph.canon.spelling import canonical_field, one_spelling

if TYPE_CHECKING:
    from collections.abc import Mapping

    from xlagraph.diff.changes import Diff
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


class OtherLayout(NamedTuple):
    """A parameter or output of which both entries ask for another layout."""

    is_parameter: bool
    a: int
    b: int
    """Its positions."""
    layout_a: str
    layout_b: str
    """``{0,1}``; of a tuple those of its arrays, ``{0,1} {0}``."""


def layouts_differ(
    a: Module, b: Module, parameters: Mapping[int, int], outputs: Mapping[int, int]
) -> bool:
    """Whether the entries ask for other layouts of paired parameters or outputs.

    What the field repeats of the instructions is left to these; the mappings are from A to B.
    Where a field does not fit its module the texts are compared.
    """
    found = _other_layouts(a, b, parameters, outputs)
    if found is None:
        texts = (m.header_fields.get(ENTRY_LAYOUT, "") for m in (a, b))
        return len(set(map(one_spelling, texts))) > 1
    return bool(found)


def other_layouts(diff: Diff) -> list[OtherLayout]:
    """The parameters and outputs of which both entries ask for another layout."""
    pairs = (
        {slot.a: slot.b for slot in slots if slot.a is not None and slot.b is not None}
        for slots in (diff.parameters, diff.outputs)
    )
    return _other_layouts(diff.a, diff.b, *pairs) or []


def _other_layouts(
    a: Module, b: Module, parameters: Mapping[int, int], outputs: Mapping[int, int]
) -> list[OtherLayout] | None:
    """None where a field does not fit its module."""
    text_a, text_b = (m.header_fields.get(ENTRY_LAYOUT, "") for m in (a, b))
    if text_a == text_b and all(k == n for both in (parameters, outputs) for k, n in both.items()):
        return []
    asked_a, asked_b = entry.asked_layouts(a), entry.asked_layouts(b)
    if asked_a is None or asked_b is None:
        return None
    inputs = (a.entry_computation.parameters, b.entry_computation.parameters)
    return [
        OtherLayout(is_parameter, k, n, layout_a, layout_b)
        for is_parameter, pairs, values, mine, theirs in (
            (True, parameters, inputs, asked_a.parameters, asked_b.parameters),
            (False, outputs, (a.outputs, b.outputs), asked_a.outputs, asked_b.outputs),
        )
        for k, n in sorted(pairs.items())
        if k in mine or n in theirs
        if (layout_a := mine.get(k) or entry.own_layouts(a, values[0][k]))
        != (layout_b := theirs.get(n) or entry.own_layouts(b, values[1][n]))
    ]


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
