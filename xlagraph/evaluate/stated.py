"""What two modules have to state alike, whatever they compute: shardings, donation, effects."""

from __future__ import annotations

import re
from collections import Counter
from typing import TYPE_CHECKING

from xlagraph.canon.spelling import one_spelling
from xlagraph.diff.header import ENTRY_LAYOUT, header_value, layouts_differ
from xlagraph.hlo.effects import acts, is_note

if TYPE_CHECKING:
    from collections.abc import Mapping

    from xlagraph.evaluate.program import Program
    from xlagraph.graph import Module

_NUMBERED = ("channel_id", "sharding")
_ANNOTATIONS = ("sharding", "frontend_attributes")
_IS_NOTE = re.compile(r'\{(?:grad_[xy]="\w+",?)+\}')
"""What torch_xla's einsum notes about its operands; XLA reads it nowhere."""
_PRECISION = ("operand_precision", "algorithm")


def effects_agree(a: Program, b: Program) -> bool:
    """Whether both act on the world alike, in one order, by what their outputs depend on.

    What acts and hands on nothing takes in values that no output shows.
    """
    told = [_effects(program) for program in (a, b)]
    return told[0] is not None and told[0] == told[1]


def _effects(program: Program) -> list[tuple[object, ...]] | None:
    module = program.module
    found: list[tuple[object, ...]] = []
    for i in module.effects:
        attributes = module.attributes[i]
        if is_note(attributes) or not acts(module.opcodes[i], attributes):
            continue
        if not program.needs(i):
            return None
        items = sorted(pair for pair in attributes.items if pair[0] not in _NUMBERED)
        found.append((module.opcodes[i], module.shapes[i], tuple(items)))
    return found


def annotations_agree(a: Module, b: Module) -> bool:
    """Whether as many instructions of both are sharded, and annotated, in each way.

    So have the precisions to be that products are asked for, however many products there are.
    """
    return _annotations(a) == _annotations(b) and _precisions(a) == _precisions(b)


def _precisions(module: Module) -> set[tuple[str, str]]:
    return {
        (key, one_spelling(value))
        for attributes in module.attributes
        for key, value in attributes.items
        if key in _PRECISION and "default" not in value
    }


def _annotations(module: Module) -> Counter[tuple[str, str]]:
    return Counter(
        (key, one_spelling(value))
        for attributes in module.attributes
        for key, value in attributes.items
        if key in _ANNOTATIONS and not _IS_NOTE.fullmatch(value)
    )


def headers_agree(
    a: Module, b: Module, parameters: Mapping[int, int], outputs: Mapping[int, int]
) -> bool:
    """Whether both headers say the same of what is paired; the mappings are from A to B."""
    fields_a, fields_b = a.header_fields, b.header_fields
    own, own_outputs = ({n: n for n in pairs.values()} for pairs in (parameters, outputs))
    for field in fields_a.keys() | fields_b.keys():
        if field == ENTRY_LAYOUT or field in a.unstated | b.unstated:
            continue
        one = header_value(field, fields_a.get(field, ""), parameters, outputs)
        if one != header_value(field, fields_b.get(field, ""), own, own_outputs):
            return False
    return not layouts_differ(a, b, parameters, outputs)
