"""What an instruction is, apart from its operands: its label, as a small number.

Labels leave out what XLA ignores when it decides what to compile: names, numbering, channel
numbers, source metadata, comments. Two modules labelled with the same `Interner` can be
compared by number.
"""

from __future__ import annotations

import re
from enum import IntEnum
from itertools import compress, count
from operator import is_not
from typing import TYPE_CHECKING

from xlagraph.canon.literals import canonical_literal
from xlagraph.canon.spelling import canonical_attribute, canonical_shape
from xlagraph.hlo.effects import SHARES_CHANNELS

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterator, Sequence

    from xlagraph.graph import Attributes, Module

_COMMENT = re.compile(r"/\*.*?\*/", re.S)
_LAYOUT = re.compile(r"\{[^{}]*\}")
_DIMENSIONS = re.compile(r"\[[^\]]*\]")
CHANNEL = "channel_id"
"""The attribute that numbers channels: which instructions share one counts, not its number."""
_NOTES = frozenset({"origin", "statistics", "debug_attributes"})
"""Attributes that tell about an instruction without changing it."""


class Level(IntEnum):
    """How much is looked at: each level forgives what its name says and all levels above."""

    TEXT = 1
    NAMES = 2
    DEAD_CODE = 3
    DUPLICATE_CONSTANTS = 4
    PARAMETER_ORDER = 5
    OUTPUT_ORDER = 6
    CONSTANT_VALUES = 7
    SHAPES = 8


class Interner(dict["Hashable", int]):
    """Numbers values in the order of their first appearance; equal values, equal number."""

    def number(self, value: Hashable) -> int:
        """The number of a value; O(1)."""
        return self.setdefault(value, len(self))


def clean(text: str) -> str:
    """Text of a shape, literal or attribute as it is shown: no comments, no superfluous space.

    What it says is compared by `xlagraph.canon.spelling` and `xlagraph.canon.literals`.
    """
    if "/*" in text:
        text = _COMMENT.sub("", text)
    return " ".join(text.split()) if " " in text or "\n" in text else text


def without_layout(shape: str) -> str:
    """A shape's text without its layouts: ``f32[2,4]{1,0}`` gives ``f32[2,4]``."""
    return _LAYOUT.sub("", shape)


def bare_shape(module: Module, instruction: int) -> str:
    """An instruction's shape without layouts, comments and superfluous space."""
    return without_layout(clean(module.shapes[instruction]))


def signature(opcode: str, attributes: Attributes, level: Level = Level.NAMES) -> str:
    """The attributes that matter, sorted by key, in one canonical text."""
    parts = []
    for key, value in sorted(attributes.items):
        if key in _NOTES:
            continue
        numbers = key == CHANNEL and opcode in SHARES_CHANNELS
        said = "*" if numbers else canonical_attribute(key, value)
        if said:
            parts.append(f"{key}={said}")
    text = ", ".join(parts)
    return re.sub(r"\d+", "#", text) if level >= Level.SHAPES else text


def instruction_text(module: Module, i: int, level: Level) -> tuple[str, str, str, str]:
    """Shape, opcode, payload and attributes of an instruction as they count at `level`."""
    opcode = module.opcodes[i]
    shape = canonical_shape(module.shapes[i])
    payload = ""
    if i in module.payloads:
        payload = _payload(module, i, level)
    if level >= Level.SHAPES:
        shape = _DIMENSIONS.sub("[*]", without_layout(shape))
    return shape, opcode, payload, signature(opcode, module.attributes[i], level)


def _payload(module: Module, i: int, level: Level) -> str:
    """What stands between the parentheses of a parameter or a constant."""
    text = module.payloads[i]
    if module.opcodes[i] != "constant":
        return text.lstrip("0") or "0"
    return "*" if level >= Level.CONSTANT_VALUES else canonical_literal(module.shapes[i], text)


def relabelled(
    module: Module, edited: Module, labels: Sequence[int], interner: Interner
) -> Sequence[int]:
    """Labels of an edited copy of a module, whose own `labels` are known.

    Only instructions whose columns were replaced are looked at. Labels are those of
    `label_instructions` at its default level.
    """
    changed: set[int] = set()
    for before, after in (
        (module.opcodes, edited.opcodes),
        (module.shapes, edited.shapes),
        (module.attributes, edited.attributes),
    ):
        changed.update(compress(count(), map(is_not, before, after)))
    if module.payloads != edited.payloads:
        changed.update(i for i, text in edited.payloads.items() if module.payloads.get(i) != text)
    made = list(labels)
    for i in sorted(changed):
        made[i] = interner.number(_label_parts(edited, i, Level.PARAMETER_ORDER))
    return made


def _label_parts(module: Module, i: int, level: Level) -> tuple[str, str, str, str]:
    shape, opcode, payload, attributes = instruction_text(module, i, level)
    return shape, opcode, "" if _is_free(module, i, level) else payload, attributes


def _is_free(module: Module, i: int, level: Level) -> bool:
    """Whether an instruction is a parameter of the entry, whose number is forgiven."""
    entry = module.entry_computation
    return (
        module.opcodes[i] == "parameter"
        and level >= Level.PARAMETER_ORDER
        and entry.start <= i < entry.stop
    )


def label_instructions(
    module: Module, interner: Interner, level: Level = Level.PARAMETER_ORDER
) -> Sequence[int]:
    """The label of every instruction; linear in instructions and in distinct texts.

    Called computations and operands are not part of a label. A parameter of the entry
    computation is labelled by its shape alone when `level` forgives parameter order.
    """
    payloads = dict(module.payloads)
    payloads.update((i, "") for i in module.payloads if _is_free(module, i, level))

    def kinds() -> Iterator[tuple[object, ...]]:
        """What decides about the label of each instruction."""
        texts = map(payloads.get, range(len(module)))
        return zip(module.opcodes, module.shapes, texts, map(id, module.attributes), strict=True)

    labels = {
        kind: interner.number(_label_parts(module, i, level))
        for kind, i in dict(zip(kinds(), count(), strict=False)).items()
    }
    return list(map(labels.__getitem__, kinds()))
