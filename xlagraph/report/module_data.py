"""From a module to the columns that the page draws it from."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from xlagraph.cause.sources import of_the_program
from xlagraph.report.model import ModuleData, Origin
from xlagraph.report.wording import member_name

if TYPE_CHECKING:
    from collections.abc import Hashable, Mapping

    from xlagraph.cause.model import Context
    from xlagraph.graph import Module
    from xlagraph.report.names import Names
    from xlagraph.tensors import Tensor

_NUMBERED = re.compile(r"(.+)\.(0|[1-9]\d{0,8})", re.S)
METADATA_PLACE = "\x00"
"""Stands in an attribute text where the metadata was; no visible text has it."""


class _Table:
    """Distinct values in order of first use."""

    def __init__(self) -> None:
        self.places: dict[Hashable, int] = {}

    def place(self, value: Hashable) -> int:
        return self.places.setdefault(value, len(self.places))

    def texts(self) -> tuple[str, ...]:
        return tuple(str(value) for value in self.places)


def module_data(module: Module, names: Names, context: Context | None = None) -> ModuleData:
    """Puts a module into columns, under the report's names; linear time."""
    stems, numbers, stem = _Table(), [], []
    for name, opcode in zip(module.names, module.opcodes, strict=True):
        shown = names.instruction(name, opcode)
        found = _NUMBERED.fullmatch(shown)
        stem.append(stems.place(found[1] if found else shown))
        numbers.append(int(found[2]) if found else -1)
    opcodes, shapes = _Table(), _Table()
    opcode_column = tuple(opcodes.place(opcode) for opcode in module.opcodes)
    shape_column = tuple(shapes.place(shape) for shape in module.shapes)
    attributes, attribute_column = _attributes(module, names)
    files, origins, origin_column = _origins(module, names)
    return ModuleData(
        name=names.module(module.name),
        header=tuple((key, names.attributes(value)) for key, value in module.header),
        computations=tuple(
            (names.computation(c.name), c.start, c.stop, c.root) for c in module.computations
        ),
        entry=module.entry,
        stems=stems.texts(),
        stem=tuple(stem),
        number=tuple(numbers),
        opcodes=tuple(names.attributes(text) for text in opcodes.texts()),
        opcode=opcode_column,
        shapes=tuple(names.attributes(text) for text in shapes.texts()),
        shape=shape_column,
        attributes=attributes,
        attribute=attribute_column,
        origins=origins,
        origin=origin_column,
        files=files,
        operand_counts=tuple(len(operands) for operands in module.operands),
        operands=tuple(i - o for i, operands in enumerate(module.operands) for o in operands),
        payloads={i: names.attributes(text) for i, text in sorted(module.payloads.items())},
        callees=dict(sorted(module.callees.items())),
        inputs=_named(context.parameters, names) if context else {},
        outputs=_named(context.outputs, names) if context else {},
    )


def _named(tensors: Mapping[int, Tensor], names: Names) -> dict[int, str]:
    return {place: member_name(tensor, names) for place, tensor in sorted(tensors.items())}


def _attributes(module: Module, names: Names) -> tuple[tuple[str, ...], tuple[int, ...]]:
    """Distinct attribute texts without their metadata."""
    table = _Table()
    cut: dict[str, int] = {}
    column = []
    for attributes in module.attributes:
        place = cut.get(attributes.text)
        if place is None:
            text = attributes.text
            if attributes.metadata:
                whole = "metadata={" + attributes.metadata + "}"
                before, _, after = text.partition(whole)
                text = names.attributes(before) + METADATA_PLACE + names.attributes(after)
            else:
                text = names.attributes(text)
            place = cut[attributes.text] = table.place(text)
        column.append(place)
    return table.texts(), tuple(column)


def _origins(
    module: Module, names: Names
) -> tuple[tuple[str, ...], tuple[Origin, ...], tuple[int, ...]]:
    """Distinct metadata, with source files in a table of their own; -1 for none."""
    files = _Table()
    origins: dict[str, Origin] = {}
    places: dict[str, int] = {}
    column = []
    for i, attributes in enumerate(module.attributes):
        text = attributes.metadata
        if not text:
            column.append(-1)
            continue
        if text not in places:
            metadata = module.metadata(i)
            places[text] = len(places)
            origins[text] = Origin(
                names.attributes(text),
                names.operation(metadata.op_type) if metadata else "",
                names.operation(metadata.op_name) if metadata else "",
                tuple(
                    (files.place(names.path(f.file)), f.line, names.function(f.function))
                    for f in of_the_program(metadata.frames if metadata else ())
                ),
            )
        column.append(places[text])
    return files.texts(), tuple(origins.values()), tuple(column)
