"""The fast way: a computation as XLA prints it, one instruction a line.

One regular expression takes the lines apart in C and never looks inside operand lists or
attributes. An operand list is split at ``", "`` and each piece, shape and name together, is
looked up among the definitions before it, which proves its grammar, its shape and its
existence in one step. Each distinct attribute list, shape and literal is read once. Whatever
does not fit is left to the general way.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from xlagraph.graph import Attributes, Computation
from xlagraph.hlo.attributes import read_attributes
from xlagraph.hlo.scan import MalformedError, bracket_end, skip_space
from xlagraph.hlo.shapes import PLAIN_SHAPE, check_shape, signature_end

if TYPE_CHECKING:
    from collections.abc import Sequence

    from xlagraph.hlo.columns import Columns

# Parentheses nest in shapes: tuples in tuples, tiles in layouts.
_FLAT = r"[^()\n]*+"
_NEST1 = rf"{_FLAT}(?:\({_FLAT}\){_FLAT})*+"
_NEST2 = rf"{_FLAT}(?:\({_NEST1}\){_FLAT})*+"
_NEST3 = rf"{_FLAT}(?:\({_NEST2}\){_FLAT})*+"
_INSTRUCTION = re.compile(
    r"^[ \t]*+(ROOT )?+%?+([A-Za-z_][\w.\-]*+) = "
    rf"([^\s(/]++|\({_NEST3}\)) ([a-z][\w\-]*+)\((.*)\n",
    re.M,
)
_COMPUTATION = re.compile(r"(ENTRY )?+%?+([A-Za-z_][\w.\-]*+) ")
_PARAMETER = rf"[A-Za-z_][\w.\-]*+: {PLAIN_SHAPE}"
_SIGNATURE = re.compile(rf"\((?:{_PARAMETER}(?:, {_PARAMETER})*+)?+\) -> {PLAIN_SHAPE} (?=\{{)")
_OPENING = re.compile(r"\{[ \t]*+\n")
_SUFFIX = re.compile(r"(?:, (execution_thread=\"[^\"\\\n]*+\"))?+(?: // [^\n]*+)?+(?=\n|\Z)")
_NAME_AT_END = re.compile(r"([A-Za-z_][\w.\-]*+)(?:, |\Z)")
_COMMENT = re.compile(r"/\*[^*]*+(?:\*(?!/)[^*]*+)*+\*/")
_WORDS = r"[^(){}\[\]\"'/]++"
_FLAT_BRACKETS = rf"\{{(?:{_WORDS})?+\}}|\[(?:{_WORDS})?+\]|/\*[^*\n]*+\*/"
_NESTED_BRACKETS = rf"\((?:{_WORDS}|{_FLAT_BRACKETS})*+\)|{_FLAT_BRACKETS}"
_SIMPLE_ARGUMENTS = re.compile(rf"(?:{_WORDS}|{_NESTED_BRACKETS})*+\)")
_METADATA = re.compile(r"(?:[^{}\"\\\n]++|\"[^\"\\\n]*+\")*+\}")
_SCALAR = re.compile(r"[\w.+\-]++", re.A)
_NO_ATTRIBUTES = Attributes("", (), "", (), ())
_PAYLOAD_OPCODES = frozenset({"parameter", "constant"})
_MAX_DIGITS = 9


class _NotPlainError(Exception):
    """The text is not in the plain form."""


def read_plain(columns: Columns, pos: int) -> int | None:
    """Reads the computation at `pos` into the columns; returns the offset behind it.

    None says that it is in another dialect, or wrong; nothing was added then.
    """
    text = columns.source.text
    head = _COMPUTATION.match(text, pos)
    if not head or (head[1] and columns.entry >= 0) or head[2] in columns.computation_numbers:
        return None
    try:
        opening = _OPENING.match(text, _signature_end(text, head.end()))
    except MalformedError:
        return None
    if not opening:
        return None
    begin = opening.end()
    end = text.find("\n}", begin - 1)
    suffix = _SUFFIX.match(text, end + 2) if end >= begin else None
    if not suffix or text.startswith(",", skip_space(text, suffix.end())):
        return None
    rows = _INSTRUCTION.findall(text, begin, end + 1)
    if len(rows) != text.count("\n", begin, end + 1):
        return None
    try:
        body = _Body(columns, rows)
        body.read_rows()
        parameters = body.ordered_parameters()
    except (_NotPlainError, MalformedError, KeyError):
        return None
    body.append_to(columns)
    computation = Computation(
        len(columns.computations),
        head[2],
        body.start,
        body.start + len(rows),
        body.root,
        parameters,
        columns.line_at(begin),
        suffix[1] or "",
    )
    columns.add_computation(computation, is_entry=bool(head[1]))
    return suffix.end()


def _signature_end(text: str, pos: int) -> int:
    common = _SIGNATURE.match(text, pos)
    return common.end() if common else signature_end(text, pos, len(text))


class _Body:
    """The instructions of one computation, on their way into the columns."""

    def __init__(self, columns: Columns, rows: Sequence[tuple[str, ...]]):
        self.columns = columns
        self.start = len(columns.names)
        roots, self.names, self.shapes, self.opcodes, self.rests = zip(*rows, strict=True)
        self.root = self.start + (roots.index("ROOT ") if "ROOT " in roots else len(rows) - 1)
        self.operands: list[tuple[int, ...]] = []
        self.attributes: list[Attributes] = []
        self.payloads: dict[int, str] = {}
        self.controls: dict[int, tuple[int, ...]] = {}
        self.calling: list[int] = []
        self.parameters: list[tuple[int, int]] = []
        if roots.count("ROOT ") > 1 or len(set(self.names)) != len(rows):
            raise _NotPlainError
        for shape in set(self.shapes) - columns.known_shapes:
            check_shape(shape)
            columns.known_shapes.add(shape)
        self.keys = self._operand_keys()
        self._numbers: dict[str, int] = {}

    def read_rows(self) -> None:
        """Reads operands and attributes of every row.

        Raises:
            _NotPlainError, MalformedError, KeyError: a row is not plain.
        """
        numbers: dict[str, int] = {}
        number_of = numbers.__getitem__
        add_operands, add_attributes = self.operands.append, self.attributes.append
        known = self.columns.known_attributes
        number = self.start
        for key, opcode, rest in zip(self.keys, self.opcodes, self.rests, strict=True):
            arguments, _, attribute_text = rest.partition("), ")
            if not attribute_text:
                arguments = rest[:-1]
                if rest[-1:] != ")":
                    raise _NotPlainError
            if opcode in _PAYLOAD_OPCODES:
                if not _SCALAR.fullmatch(arguments):
                    arguments, attribute_text = _split_call(rest)
                self._keep_payload(number, opcode, arguments.strip())
                add_operands(())
            elif arguments in numbers:
                add_operands((number_of(arguments),))
            else:
                try:
                    add_operands(tuple(map(number_of, arguments.split(", "))))
                except KeyError:
                    arguments, attribute_text = _split_call(rest)
                    arguments = _COMMENT.sub("", arguments)
                    add_operands(self._odd_operands(arguments, number, numbers))
            attributes = known.get(attribute_text)
            if attributes is None:
                attributes = self._new_attributes(attribute_text)
            add_attributes(attributes)
            if attributes.callees or attributes.controls:
                self._link(number, attributes)
            numbers[key] = number
            number += 1

    def ordered_parameters(self) -> tuple[int, ...]:
        """Instruction numbers by parameter number, which have to be 0, 1, 2, ..."""
        self.parameters.sort()
        if any(at != place for at, (place, _) in enumerate(self.parameters)):
            raise _NotPlainError
        return tuple(number for _, number in self.parameters)

    def append_to(self, columns: Columns) -> None:
        """Appends all rows to the module's columns."""
        columns.names.extend(self.names)
        columns.opcodes.extend(self.opcodes)
        columns.shapes.extend(self.shapes)
        columns.operands.extend(self.operands)
        columns.attributes.extend(self.attributes)
        columns.payloads.update(self.payloads)
        columns.controls.update(self.controls)
        columns.calling.extend(self.calling)

    def _operand_keys(self) -> Sequence[str]:
        """How a use of each instruction reads, in the style of the first operand list."""
        sample = ""
        for opcode, rest in zip(self.opcodes, self.rests, strict=True):
            if opcode not in _PAYLOAD_OPCODES and rest[:1] != ")":
                sample = rest
                break
        pairs = zip(self.shapes, self.names, strict=True)
        if sample.startswith("%"):
            return ["%" + name for name in self.names]
        if "%" in sample.partition(", metadata=")[0]:
            return [f"{shape} %{name}" for shape, name in pairs]
        if _NAME_AT_END.match(sample.partition(")")[0]):
            return self.names
        return [f"{shape} {name}" for shape, name in pairs]

    def _keep_payload(self, number: int, opcode: str, payload: str) -> None:
        if opcode == "parameter":
            if not (payload.isdecimal() and payload.isascii() and len(payload) <= _MAX_DIGITS):
                raise _NotPlainError
            self.parameters.append((int(payload), number))
        self.payloads[number] = payload

    def _odd_operands(
        self, arguments: str, number: int, numbers: dict[str, int]
    ) -> tuple[int, ...]:
        """No operands, operands between comments, or tuples that hold ``", "``."""
        if not arguments:
            return ()
        pieces = arguments.split(", ")
        if all(map(numbers.__contains__, pieces)):
            return tuple(map(numbers.__getitem__, pieces))
        by_name = self._numbers_by_name()
        found = tuple(by_name[name] for name in _NAME_AT_END.findall(arguments))
        expected = ", ".join([self.keys[operand - self.start] for operand in found])
        if _COMMENT.sub("", expected) != arguments or max(found, default=-1) >= number:
            raise _NotPlainError
        return found

    def _new_attributes(self, text: str) -> Attributes:
        """Reads an attribute list; most new ones differ from known ones in metadata alone."""
        head, behind, metadata = text.rpartition("metadata={")
        alone = behind and "metadata=" not in head and (not head or head.endswith(", "))
        if alone and _METADATA.fullmatch(metadata):
            known = self.columns.known_attributes
            plain = known.get(head[:-2]) or self._new_attributes(head[:-2])
            attributes = Attributes(
                ", " + text, plain.items, metadata[:-1], plain.callees, plain.controls
            )
        else:
            attributes = read_attributes(", " + text) if text else _NO_ATTRIBUTES
        self.columns.known_attributes[text] = attributes
        return attributes

    def _link(self, number: int, attributes: Attributes) -> None:
        if attributes.callees:
            self.calling.append(number)
        if attributes.controls:
            numbers = self._numbers_by_name()
            predecessors = tuple(numbers[name] for name in attributes.controls)
            if max(predecessors) >= number:
                raise _NotPlainError
            self.controls[number] = predecessors

    def _numbers_by_name(self) -> dict[str, int]:
        if not self._numbers:
            self._numbers = {name: at for at, name in enumerate(self.names, self.start)}
        return self._numbers


def _split_call(rest: str) -> tuple[str, str]:
    """What stands behind an opcode's parenthesis, split where that one closes."""
    simple = _SIMPLE_ARGUMENTS.match(rest)
    if simple:
        end = simple.end()
    else:
        call = "(" + rest
        end = bracket_end(call, 0, len(call)) - 1
    arguments, attribute_text = rest[: end - 1], rest[end:]
    if not attribute_text:
        return arguments, ""
    if not attribute_text.startswith(", ") or len(attribute_text) == 2:
        raise _NotPlainError
    return arguments, attribute_text[2:]
