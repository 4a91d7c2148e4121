"""From HLO text to `Module`: the fast way for text as XLA prints it.

XLA prints one instruction a line. One regular expression takes a whole computation apart
in C, and each distinct attribute list is looked at once; the count of lines proves that
nothing was passed over. Text in another dialect takes the general way.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from xlagraph.errors import InputError, Location, Source
from xlagraph.graph import Attributes, Computation, Module, StackTables
from xlagraph.hlo.attributes import read_attributes, split_fields
from xlagraph.hlo.scan import MalformedError

if TYPE_CHECKING:
    from collections.abc import Sequence

# Parentheses nest in shapes: tuples in tuples, tiles in layouts.
_FLAT = r"[^()\n]*+"
_NEST1 = rf"{_FLAT}(?:\({_FLAT}\){_FLAT})*+"
_NEST2 = rf"{_FLAT}(?:\({_NEST1}\){_FLAT})*+"
_NEST3 = rf"{_FLAT}(?:\({_NEST2}\){_FLAT})*+"
_INSTRUCTION = re.compile(
    r"(?m)^[ \t]*+(ROOT )?%?([A-Za-z_][\w.\-]*+) = "
    rf"([^\s(]\S*+|\({_NEST3}\)) ([a-z][\w\-]*+)\(({_NEST3})\)([^\n]*+)\n"
)
_COMPUTATION = re.compile(r"\s*+(ENTRY )?%?([A-Za-z_][\w.\-]*+)(?: (\([^\n]*))? \{[ \t]*+\n")
_HEADER = re.compile(r"\s*+HloModule\s++([A-Za-z_][\w.\-]*+)")
_SIGIL_NAME = re.compile(r"%([\w.\-]++)")
_COMMENT = re.compile(r"/\*.*?\*/", re.S)
_TABLE = re.compile(r"\s*+(FileNames|FunctionNames|FileLocations|StackFrames)[ \t]*+\n")
_TABLE_ROW = re.compile(r'[ \t]*+(\d+) (?:"((?:[^"\\]|\\.)*)"|\{([^{}]*)\})[ \t]*+\n?')
_PAYLOAD_OPCODES = frozenset({"parameter", "constant"})


class _NotPlainError(Exception):
    """The text is not in the plain form that the fast way reads."""


class _Columns:
    """The module under construction."""

    def __init__(self) -> None:
        self.computations: list[Computation] = []
        self.entry = -1
        self.names: list[str] = []
        self.opcodes: list[str] = []
        self.shapes: list[str] = []
        self.operands: list[tuple[int, ...]] = []
        self.attributes: list[Attributes] = []
        self.payloads: dict[int, str] = {}
        self.callees: dict[int, tuple[int, ...]] = {}
        self.controls: dict[int, tuple[int, ...]] = {}
        self.known_attributes: dict[str, Attributes] = {}
        self.computation_numbers: dict[str, int] = {}


def read_module(text: str, name: str = "<text>", first_line: int = 1) -> Module:
    """Reads one module; time and memory are linear in the length of `text`.

    Raises:
        InputError: the text is not HLO; tells line, column and what was expected.
    """
    source = Source(name, text, first_line)
    columns = _Columns()
    header_name, header, tables, pos = _read_header(source)
    while pos < len(text) and not text[pos:].isspace():
        pos = _read_computation(source, columns, pos)
    if not columns.computations:
        raise InputError("expected a computation", Location(source, len(text)))
    entry = columns.entry if columns.entry >= 0 else len(columns.computations) - 1
    return Module(
        name=header_name or columns.computations[entry].name,
        header=header,
        computations=tuple(columns.computations),
        entry=entry,
        names=columns.names,
        opcodes=columns.opcodes,
        shapes=columns.shapes,
        operands=columns.operands,
        attributes=columns.attributes,
        payloads=columns.payloads,
        callees=columns.callees,
        controls=columns.controls,
        tables=tables,
        file=name,
    )


def _read_header(source: Source) -> tuple[str, tuple[tuple[str, str], ...], StackTables, int]:
    match = _HEADER.match(source.text)
    if not match:
        return "", (), StackTables(), 0
    end = source.text.find("\n", match.end())
    end = len(source.text) if end < 0 else end
    try:
        fields = split_fields(source.text, match.end(), end)
    except MalformedError as error:
        raise InputError(str(error), Location(source, error.offset)) from None
    tables, pos = _read_tables(source.text, end)
    return match[1], tuple(fields), tables, pos


def _read_tables(text: str, pos: int) -> tuple[StackTables, int]:
    names: dict[str, dict[int, str]] = {"FileNames": {}, "FunctionNames": {}}
    rows: dict[str, dict[int, dict[str, int]]] = {"FileLocations": {}, "StackFrames": {}}
    while table := _TABLE.match(text, pos):
        pos = table.end()
        while row := _TABLE_ROW.match(text, pos):
            pos = row.end()
            number = int(row[1])
            if table[1] in names:
                names[table[1]][number] = row[2] or ""
            else:
                pairs = (pair.partition("=") for pair in (row[3] or "").split())
                rows[table[1]][number] = {k: int(v) for k, _, v in pairs if v.isdecimal()}
    found = StackTables(
        names["FileNames"], names["FunctionNames"], rows["FileLocations"], rows["StackFrames"]
    )
    return found, pos


def _read_computation(source: Source, columns: _Columns, pos: int) -> int:
    text = source.text
    match = _COMPUTATION.match(text, pos)
    if not match:
        raise InputError("expected a computation", Location(source, pos))
    begin = match.end()
    end = text.find("\n}", begin - 1)
    if end < 0:
        raise InputError("expected '}' at the end of the computation", Location(source, len(text)))
    rows = _INSTRUCTION.findall(text, begin, end + 1)
    if len(rows) != text.count("\n", begin, end + 1):
        raise _NotPlainError
    start = len(columns.names)
    line = source.first_line + text.count("\n", 0, begin)
    root = _append_rows(columns, rows)
    index = len(columns.computations)
    stop = len(columns.names)
    close = text.find("\n", end + 1)
    close = len(text) if close < 0 else close
    parameters = sorted(
        (i for i in range(start, stop) if columns.opcodes[i] == "parameter"),
        key=lambda i: int(columns.payloads[i]),
    )
    columns.computations.append(
        Computation(
            index,
            match[2],
            start,
            stop,
            root,
            tuple(parameters),
            line,
            text[end + 2 : close].strip(" ,\t\r"),
        )
    )
    columns.computation_numbers[match[2]] = index
    if match[1]:
        columns.entry = index
    return close


def _append_rows(columns: _Columns, rows: Sequence[tuple[str, ...]]) -> int:
    """Appends the instructions of one computation; returns the number of its root."""
    number = len(columns.names)
    root = number + len(rows) - 1
    numbers: dict[str, int] = {}
    number_of = numbers.__getitem__
    find_names = _SIGIL_NAME.findall
    append_operands = columns.operands.append
    append_attributes = columns.attributes.append
    known = columns.known_attributes
    for is_root, name, _, opcode, arguments, attribute_text in rows:
        if opcode in _PAYLOAD_OPCODES:
            columns.payloads[number] = arguments
            append_operands(())
        elif not arguments:
            append_operands(())
        elif "%" in arguments:
            append_operands(tuple(map(number_of, find_names(arguments))))
        else:
            append_operands(tuple(map(number_of, _bare_names(arguments))))
        attributes = known.get(attribute_text)
        if attributes is None:
            attributes = known[attribute_text] = read_attributes(attribute_text)
        append_attributes(attributes)
        if attributes.callees or attributes.controls:
            _link(columns, number, attributes, numbers)
        if is_root:
            root = number
        numbers[name] = number
        number += 1
    _, names, shapes, opcodes, _, _ = zip(*rows, strict=True)
    columns.names.extend(names)
    columns.opcodes.extend(opcodes)
    columns.shapes.extend(shapes)
    return root


def _bare_names(arguments: str) -> list[str]:
    """Operand names without sigils, each maybe behind its shape."""
    if "(" in arguments:
        raise _NotPlainError
    if "/*" in arguments:
        arguments = _COMMENT.sub("", arguments)
    return [argument.rpartition(" ")[2] for argument in arguments.split(", ")]


def _link(columns: _Columns, number: int, attributes: Attributes, numbers: dict[str, int]) -> None:
    if attributes.callees:
        columns.callees[number] = tuple(
            columns.computation_numbers[callee]
            for _, callees in attributes.callees
            for callee in callees
        )
    if attributes.controls:
        columns.controls[number] = tuple(numbers[name] for name in attributes.controls)
