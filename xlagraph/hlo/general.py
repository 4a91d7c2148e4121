"""The general way: a recursive-descent reader for every dialect, with exact errors.

It follows tokens, not lines: comments and line ends may stand anywhere, instructions may be
written inside operand lists and computations inside attributes. Depth is bounded.
"""

from __future__ import annotations

import re
from array import array
from bisect import bisect_left
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from xlagraph.errors import InputError, Location
from xlagraph.graph import Attributes, Computation
from xlagraph.hlo.attributes import (
    CALLEE_KEYS,
    CONTROL_KEY,
    Field,
    is_names,
    make_attributes,
    parse_fields,
)
from xlagraph.hlo.columns import part_count, part_message
from xlagraph.hlo.infer import infer_shape, tuple_part
from xlagraph.hlo.literals import check_literal
from xlagraph.hlo.scan import MAX_DEPTH, MalformedError, bracket_end, name_at, skip_space
from xlagraph.hlo.shapes import (
    are_compatible,
    begins_shape,
    parse_shape,
    signature_end,
    tidy_shape,
)

if TYPE_CHECKING:
    from xlagraph.hlo.columns import Columns

_WORD = re.compile(r"[A-Za-z_][\w.\-]*+")
_OPCODE = re.compile(r"[a-z][\w\-]*+")
_INDEX = re.compile(r"#(\d{1,9})(?!\d)")
_NUMBER = re.compile(r"\d{1,9}(?!\d)")
_ROOT = re.compile(r"ROOT(?=[\s%/])")
_ENTRY = re.compile(r"ENTRY(?=[\s%/])")


@dataclass(slots=True)
class _Row:
    """One instruction; operands are numbers of rows in the same body."""

    name: str
    opcode: str
    shape: str
    operands: tuple[int, ...]
    attributes: Attributes
    payload: str | None
    offset: int


@dataclass(slots=True)
class _Body:
    """The instructions of one computation and the names defined so far."""

    rows: list[_Row] = field(default_factory=list)
    numbers: dict[str, int] = field(default_factory=dict)
    parts: dict[tuple[int, int], int] = field(default_factory=dict)
    """Instructions made for ``name#index``, by tuple and index."""
    root: int = -1
    makes_parameters: bool = False
    """Operands that are not defined are parameters: the text is an instruction alone."""

    def add(self, row: _Row) -> int:
        self.rows.append(row)
        return len(self.rows) - 1


class GeneralReader:
    """Reads computations of one module into its columns."""

    def __init__(self, columns: Columns):
        self.columns = columns
        self.text = columns.source.text
        self.end = len(self.text)
        self._line_ends: array[int] | None = None
        self._inlined = 0

    def read_top_level(self, pos: int) -> int:
        """Reads the computation at `pos`, or bare instructions; returns the offset behind.

        Raises:
            InputError, MalformedError: the text is neither.
        """
        entry = _ENTRY.match(self.text, pos)
        start = skip_space(self.text, entry.end()) if entry else pos
        named = name_at(self.text, start)
        opening = self._body_start(named[1]) if named else -1
        if not named or opening < 0:
            if entry or self.columns.computations:
                raise self._error("expected a computation: name (signature) -> shape {", start)
            return self._read_bare(pos)
        name = named[0]
        if entry and self.columns.entry >= 0:
            raise self._error("there is another ENTRY computation above", pos)
        if name in self.columns.computation_numbers:
            raise self._error(f"another computation is called {name!r}", start)
        body, pos = self._read_body(opening, 0)
        fields, pos = parse_fields(self.text, pos, self.end)
        suffix = ", ".join(f"{field.key}={self._value(field)}" for field in fields)
        self._append(body, name, suffix, is_entry=bool(entry))
        return pos

    def _read_bare(self, pos: int) -> int:
        """Instructions without a computation around them: the whole text is one."""
        body = _Body(makes_parameters=True)
        while pos < self.end:
            pos = self._read_instruction(body, pos, 0, needs_name=False)
            pos = skip_space(self.text, pos)
        self._append(body, "entry", "", is_entry=True)
        return pos

    def _body_start(self, pos: int) -> int:
        """Offset of the ``{`` behind a computation's name and signature, or -1."""
        pos = signature_end(self.text, skip_space(self.text, pos), self.end)
        return pos if self.text.startswith("{", pos) else -1

    def _read_body(self, pos: int, depth: int) -> tuple[_Body, int]:
        """Reads ``{ instructions }``; returns the offset behind the closing brace."""
        body = _Body()
        pos = skip_space(self.text, pos + 1)
        while not self.text.startswith("}", pos):
            if pos >= self.end:
                raise self._error("expected '}' at the end of the computation", self.end)
            pos = self._read_instruction(body, pos, depth, needs_name=True)
            pos = skip_space(self.text, pos)
        if not body.rows:
            raise self._error("expected an instruction; the computation is empty", pos)
        return body, pos + 1

    def _read_instruction(self, body: _Body, pos: int, depth: int, *, needs_name: bool) -> int:
        root = _ROOT.match(self.text, pos)
        start = skip_space(self.text, root.end()) if root else pos
        name, equals = name_at(self.text, start) or ("", start)
        equals = skip_space(self.text, equals)
        if name and self.text.startswith("=", equals):
            if name in body.numbers:
                raise self._error(f"another instruction is called {name!r}", start)
            call = skip_space(self.text, equals + 1)
        elif needs_name:
            message = "expected an instruction: name = shape opcode(operands)"
            raise self._error(message, equals)
        else:
            name, call = "", start
        number, pos = self._read_call(body, call, depth)
        if name:
            body.rows[number].name = name
            body.numbers[name] = number
        body.rows[number].offset = start
        if root:
            if body.root >= 0:
                raise self._error("the computation has another ROOT above", start)
            body.root = number
        return pos

    def _read_call(
        self, body: _Body, start: int, depth: int, *, nested: bool = False
    ) -> tuple[int, int]:
        """Reads ``shape opcode(operands), attributes``; the shape may be missing."""
        if depth > MAX_DEPTH:
            raise self._error(f"nested deeper than {MAX_DEPTH} levels", start)
        text = self.text
        shape, pos = self._optional_shape(start)
        opcode = _OPCODE.match(text, pos)
        if not opcode:
            what = "an opcode" if shape else "a shape and an opcode"
            raise self._error(f"expected {what}", pos)
        pos = skip_space(text, opcode.end())
        if not text.startswith("(", pos):
            raise self._error(f"expected '(' behind the opcode {opcode[0]!r}", pos)
        payload: str | None = None
        operands: tuple[int, ...] = ()
        if opcode[0] in ("parameter", "constant"):
            close = bracket_end(text, pos, self.end)
            payload = text[pos + 1 : close - 1].strip()
            if opcode[0] == "parameter":
                payload = self._parameter_number(pos + 1, close - 1)
            elif shape:
                self._check_literal(shape, pos + 1, close - 1)
            pos = close
        else:
            operands, pos = self._read_operands(body, pos + 1, depth)
        fields, end = parse_fields(text, pos, self.end, in_list=nested)
        attributes = self._attributes(pos, end, fields, depth)
        self._check_controls(body, attributes, fields)
        if not shape:
            known = [body.rows[operand].shape for operand in operands]
            shape = infer_shape(opcode[0], known, attributes, self._root_shapes(attributes))
        row = _Row("", opcode[0], shape, operands, attributes, payload, start)
        return body.add(row), end

    def _parameter_number(self, start: int, stop: int) -> str:
        start = skip_space(self.text, start)
        number = _NUMBER.match(self.text, start, stop)
        if not number or skip_space(self.text, number.end()) < stop:
            raise self._error("expected a parameter number", start)
        return number[0]

    def _check_literal(self, shape: str, start: int, stop: int) -> None:
        try:
            check_literal(shape, self.text[start:stop])
        except MalformedError as error:
            raise self._error(str(error), start + error.offset) from None

    def _root_shapes(self, attributes: Attributes) -> list[str]:
        """The result shapes of called computations that stand above."""
        columns = self.columns
        numbers = [columns.computation_numbers.get(n) for _, ns in attributes.callees for n in ns]
        return [columns.shapes[columns.computations[c].root] for c in numbers if c is not None]

    def _optional_shape(self, pos: int) -> tuple[str, int]:
        if not begins_shape(self.text, pos):
            return "", pos
        _, end = parse_shape(self.text, pos, self.end)
        return tidy_shape(self.text[pos:end]), skip_space(self.text, end)

    def _read_operands(self, body: _Body, pos: int, depth: int) -> tuple[tuple[int, ...], int]:
        """Reads operands up to the closing parenthesis, which is passed.

        As XLA's parser does, it passes over what stands between two commas and has no name.
        """
        text = self.text
        operands: list[int] = []
        pos = self._behind_commas(pos)
        while not text.startswith(")", pos):
            shape, name = self._optional_shape(pos)
            if shape and text.startswith(",", name) and not body.makes_parameters:
                pos = self._behind_commas(name)
                continue
            operand, pos = self._read_operand(body, pos, shape, name, depth)
            operands.append(operand)
            pos = skip_space(text, pos)
            if not text.startswith((",", ")"), pos):
                raise self._error("expected ',' or ')' behind an operand", pos)
            pos = self._behind_commas(pos)
        return tuple(operands), pos + 1

    def _behind_commas(self, pos: int) -> int:
        pos = skip_space(self.text, pos)
        while self.text.startswith(",", pos):
            pos = skip_space(self.text, pos + 1)
        return pos

    def _read_operand(
        self, body: _Body, start: int, shape: str, pos: int, depth: int
    ) -> tuple[int, int]:
        """Reads ``shape name``, ``name#1``, or a whole instruction in place.

        The shape from `start` to `pos` is read already, ``""`` where there is none.
        """
        named = name_at(self.text, pos)
        if not named:
            if shape and body.makes_parameters:
                return self._new_parameter(body, "", shape, start), pos
            raise self._error("expected an operand", pos)
        name, end = named
        if self.text.startswith("(", skip_space(self.text, end)) and self.text[pos] != "%":
            return self._read_call(body, start, depth + 1, nested=True)
        number = body.numbers.get(name)
        if number is None and shape and body.makes_parameters:
            number = self._new_parameter(body, name, shape, start)
        if number is None:
            raise self._error(f"unknown operand {name!r}; it is not defined above", pos)
        while index := _INDEX.match(self.text, end):
            number = self._tuple_part(body, number, int(index[1]), pos)
            end = index.end()
        defined = body.rows[number].shape
        if shape and defined and not are_compatible(shape, defined):
            message = f"operand {name!r} is defined above with another shape, {defined}"
            raise self._error(message, start)
        return number, end

    def _new_parameter(self, body: _Body, name: str, shape: str, offset: int) -> int:
        """The parameter that an undefined operand of an instruction alone stands for."""
        place = sum(1 for row in body.rows if row.opcode == "parameter")
        attributes = make_attributes("", ())
        number = body.add(_Row(name, "parameter", shape, (), attributes, str(place), offset))
        if name:
            body.numbers[name] = number
        return number

    def _tuple_part(self, body: _Body, number: int, index: int, offset: int) -> int:
        """The get-tuple-element that ``name#index`` stands for, made once."""
        known = body.parts.get((number, index))
        if known is not None:
            return known
        if index >= (count := part_count(body.rows[number].shape)):
            raise self._error(part_message(count), offset)
        attributes = make_attributes(f", index={index}", [("index", str(index))])
        shape = tuple_part(body.rows[number].shape, index)
        row = _Row("", "get-tuple-element", shape, (number,), attributes, None, offset)
        body.parts[number, index] = made = body.add(row)
        return made

    def _attributes(self, start: int, end: int, fields: list[Field], depth: int) -> Attributes:
        """The attribute list; inline computations become computations of their own."""
        pairs: list[tuple[str, str]] = []
        inline = False
        for item in fields:
            value = self._value(item)
            if item.key in CALLEE_KEYS and value.startswith("{") and not is_names(value):
                names = ", ".join(self._read_inline(item.start, depth + 1))
                value = f"{{{names}}}" if _holds_bodies(value) else names
                inline = True
            elif (item.key in CALLEE_KEYS or item.key == CONTROL_KEY) and not is_names(value):
                raise self._error(f"expected names as the value of {item.key!r}", item.start)
            pairs.append((item.key, value))
        text = self.text[start:end]
        if inline:
            text = "".join(f", {key}={value}" for key, value in pairs)
        return make_attributes(text, pairs)

    def _read_inline(self, pos: int, depth: int) -> list[str]:
        """Reads ``{ instructions }`` or ``{{ instructions }, ...}``; returns new names."""
        if depth > MAX_DEPTH:
            raise self._error(f"nested deeper than {MAX_DEPTH} levels", pos)
        inner = skip_space(self.text, pos + 1)
        starts_body = self.text.startswith("{", inner)
        names: list[str] = []
        pos = inner if starts_body else pos
        while True:
            if not self.text.startswith("{", pos):
                raise self._error("expected '{'", pos)
            body, pos = self._read_body(pos, depth)
            names.append("%" + self._inline_name())
            self._append(body, names[-1][1:], "", is_entry=False)
            pos = skip_space(self.text, pos)
            if not starts_body or self.text.startswith("}", pos):
                return names
            if not self.text.startswith(",", pos):
                raise self._error("expected ',' or '}'", pos)
            pos = skip_space(self.text, pos + 1)

    def _inline_name(self) -> str:
        while True:
            name = f"inline.{self._inlined}"
            self._inlined += 1
            if name not in self.columns.computation_numbers:
                return name

    def _check_controls(self, body: _Body, attributes: Attributes, fields: list[Field]) -> None:
        for name in attributes.controls:
            if name not in body.numbers:
                where = next(item for item in fields if item.key == CONTROL_KEY)
                offset = max(self.text.find(name, where.start, where.end), where.start)
                raise self._error(f"unknown instruction {name!r}; it is not defined above", offset)

    def _append(self, body: _Body, name: str, suffix: str, *, is_entry: bool) -> None:
        """Moves a body into the module's columns."""
        columns, rows = self.columns, body.rows
        _name_rows(body)
        start = len(columns.names)
        parameters = self._parameters(body)
        for number, row in enumerate(rows, start):
            columns.names.append(row.name)
            columns.opcodes.append(row.opcode)
            columns.shapes.append(row.shape)
            columns.operands.append(tuple(start + operand for operand in row.operands))
            columns.attributes.append(row.attributes)
            if row.payload is not None:
                columns.payloads[number] = row.payload
            if row.attributes.callees:
                columns.calling.append(number)
            if row.attributes.controls:
                names = row.attributes.controls
                columns.controls[number] = tuple(start + body.numbers[n] for n in names)
        lines = tuple(self._line_at(row.offset) for row in rows)
        in_rows = lines == tuple(range(lines[0], lines[0] + len(lines)))
        root = body.root if body.root >= 0 else len(rows) - 1
        computation = Computation(
            len(columns.computations),
            name,
            start,
            start + len(rows),
            start + root,
            tuple(start + number for number in parameters),
            lines[0],
            suffix,
            () if in_rows else lines,
        )
        columns.add_computation(computation, is_entry=is_entry)

    def _parameters(self, body: _Body) -> list[int]:
        """Row numbers by parameter number, which have to be 0, 1, 2, ..."""
        found: dict[int, int] = {}
        for number, row in enumerate(body.rows):
            if row.opcode == "parameter" and row.payload is not None:
                place = int(row.payload)
                if place in found:
                    raise self._error(f"there is another parameter {place} above", row.offset)
                found[place] = number
        for place in sorted(found):
            if place and place - 1 not in found:
                row = body.rows[found[place]]
                raise self._error(f"there is no parameter {place - 1}", row.offset)
        if found and 0 not in found:
            raise self._error("there is no parameter 0", body.rows[min(found.values())].offset)
        return [found[place] for place in sorted(found)]

    def _line_at(self, offset: int) -> int:
        if self._line_ends is None:
            ends = (match.start() for match in re.finditer("\n", self.text))
            self._line_ends = array("q", ends)
        return self.columns.source.first_line + bisect_left(self._line_ends, offset)

    def _value(self, item: Field) -> str:
        return self.text[item.start : item.end]

    def _error(self, message: str, offset: int) -> InputError:
        return InputError(message, Location(self.columns.source, min(offset, self.end)))


def _holds_bodies(value: str) -> bool:
    """Whether an inline value is a list of computations, not one."""
    return value.startswith("{", skip_space(value, 1))


def _name_rows(body: _Body) -> None:
    """Gives names to instructions that stand in operand lists: their opcode and a number."""
    counts: dict[str, int] = {}
    for number, row in enumerate(body.rows):
        if row.name:
            continue
        count = counts.get(row.opcode, 0)
        while (name := f"{row.opcode}.{count}") in body.numbers:
            count += 1
        counts[row.opcode] = count + 1
        row.name = name
        body.numbers[name] = number
