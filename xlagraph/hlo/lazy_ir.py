"""Lazy IR as text (``XLA_SAVE_TENSORS_FMT=text``): torch_xla's graph before lowering.

The operations are the framework's (``aten::addmm``), one a line, and outputs are marked
``ROOT=k``. The module gets a ``tuple`` of the outputs as its root, and a
``get-tuple-element`` for each use ``%5.1`` of one output of many.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from xlagraph.errors import InputError, Location
from xlagraph.graph import Attributes, Computation, Module, StackTables
from xlagraph.hlo.attributes import make_attributes, read_attributes
from xlagraph.hlo.infer import tuple_part
from xlagraph.hlo.scan import MalformedError
from xlagraph.hlo.shapes import parse_shape
from xlagraph.patterns import re

if TYPE_CHECKING:
    from xlagraph.errors import Source

_OPENING = re.compile(r"\s*+IR \{[ \t]*+\r?\n")
_RESULT = re.compile(r"[ \t]*+%(\d{1,9}) = ")
_CALL = re.compile(r" ([\w:.\-]++)\(([%\d., ]*+)\)")
_OPERAND = re.compile(r"%(\d{1,9})(?:\.(\d{1,9}))?+(?:, |\Z)")
_PLACE = re.compile(r"([^@]*)@(.*):(\d{1,9})")


@dataclass(slots=True)
class _Graph:
    """The one computation under construction."""

    source: Source
    names: list[str] = field(default_factory=list)
    opcodes: list[str] = field(default_factory=list)
    shapes: list[str] = field(default_factory=list)
    operands: list[tuple[int, ...]] = field(default_factory=list)
    attributes: list[Attributes] = field(default_factory=list)
    lines: list[int] = field(default_factory=list)
    numbers: dict[str, int] = field(default_factory=dict)
    outputs: dict[int, int] = field(default_factory=dict)

    def add(
        self, name: str, opcode: str, shape: str, operands: tuple[int, ...], text: Attributes
    ) -> int:
        self.names.append(name)
        self.opcodes.append(opcode)
        self.shapes.append(shape)
        self.operands.append(operands)
        self.attributes.append(text)
        return len(self.names) - 1

    def fail(self, message: str, offset: int) -> InputError:
        return InputError(message, Location(self.source, offset))


def read_lazy_ir(source: Source) -> Module:
    """Reads one graph; linear in its length.

    Raises:
        InputError: the text is not lazy IR; tells line, column and what was expected.
    """
    text = source.text
    opening = _OPENING.match(text)
    if not opening:
        raise InputError("expected 'IR {'", Location(source, 0))
    graph = _Graph(source)
    pos, line = opening.end(), source.first_line + text.count("\n", 0, opening.end())
    first_line = line
    while not text.startswith("}", pos):
        end = text.find("\n", pos)
        if end < 0:
            raise graph.fail("expected '}' at the end of the graph", len(text))
        _read_line(graph, pos, end)
        graph.lines += [line] * (len(graph.names) - len(graph.lines))
        pos, line = end + 1, line + 1
    if not graph.names:
        raise graph.fail("expected an operation; the graph is empty", pos)
    roots = tuple(graph.outputs[output] for output in sorted(graph.outputs))
    shape = f"({', '.join(graph.shapes[number] for number in roots)})"
    root = graph.add("outputs", "tuple", shape, roots, make_attributes("", ()))
    graph.lines.append(line)
    computation = Computation(
        0, "IR", 0, len(graph.names), root, (), first_line, "", tuple(graph.lines)
    )
    return Module(
        name="IR",
        header=(),
        computations=(computation,),
        entry=0,
        names=graph.names,
        opcodes=graph.opcodes,
        shapes=graph.shapes,
        operands=graph.operands,
        attributes=graph.attributes,
        payloads={},
        callees={},
        controls={},
        tables=StackTables(),
        file=source.name,
    )


def _read_line(graph: _Graph, pos: int, end: int) -> None:
    """One operation: ``%9 = f32[8] aten::add(%1, %2.1), key=value, ROOT=0``."""
    text = graph.source.text
    result = _RESULT.match(text, pos, end)
    if not result:
        raise graph.fail("expected an operation: %number = shape operation(operands)", pos)
    if result[1] in graph.numbers:
        raise graph.fail(f"another operation is called %{result[1]}", result.start(1))
    try:
        _, shape_end = parse_shape(text, result.end(), end)
        call = _CALL.match(text, shape_end, end)
        if not call:
            raise graph.fail("expected operation(operands)", shape_end)
        attributes = _with_place(read_attributes(text[call.end() : end].rstrip()))
    except MalformedError as error:
        raise graph.fail(str(error), min(error.offset, end)) from None
    operands = tuple(
        _operand(graph, operand[1], operand[2], call.start(2) + operand.start())
        for operand in _OPERAND.finditer(call[2])
    )
    shape = text[result.end() : shape_end]
    number = graph.add(result[1], call[1], shape, operands, attributes)
    graph.numbers[result[1]] = number
    output = attributes.get("ROOT") or ""
    if output.isdecimal() and len(output) <= 9:
        graph.outputs[int(output)] = number


def _operand(graph: _Graph, name: str, output: str | None, offset: int) -> int:
    number = graph.numbers.get(name)
    if number is None:
        raise graph.fail(f"unknown operand %{name}; it is not defined above", offset)
    if not output:
        return number
    made = graph.numbers.get(f"{name}.{output}")
    if made is None:
        shape = tuple_part(graph.shapes[number], int(output))
        attributes = make_attributes(f", index={output}", [("index", output)])
        made = graph.add(f"{name}.{output}", "get-tuple-element", shape, (number,), attributes)
        graph.numbers[f"{name}.{output}"] = made
    return made


def _with_place(attributes: Attributes) -> Attributes:
    """Tells ``location=function@file:line`` as metadata, where every stage looks for it."""
    place = _PLACE.fullmatch(attributes.get("location") or "")
    if not place:
        return attributes
    metadata = f'source_file="{place[2]}" source_line={place[3]}'
    return Attributes(
        attributes.text, attributes.items, metadata, attributes.callees, attributes.controls
    )
