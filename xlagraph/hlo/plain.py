"""The fast way: a computation as XLA prints it, one instruction a line.

One regular expression takes the lines apart in C and never looks inside operand lists or
attributes; it is given a stretch of text at a time, so that what it makes is still in the
processor's cache when it is looked at. An operand list is split at ``", "`` and each piece,
shape and name together, is looked up among the definitions before it, which proves its
grammar, its shape and its existence in one step. Each distinct attribute list, shape and
literal is read once. Whatever does not fit is left to the general way.
"""

from __future__ import annotations

from itertools import count
from typing import TYPE_CHECKING

from xlagraph.graph import Attributes, Computation
from xlagraph.hlo.attributes import read_attributes
from xlagraph.hlo.literals import check_literal
from xlagraph.hlo.scan import MalformedError, bracket_end, skip_space
from xlagraph.hlo.shapes import PLAIN_SHAPE, check_shape, signature_end
from xlagraph.patterns import re

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

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
_METADATA = re.compile(r"(?:[^(){}\[\]\"\\\n]++|\"[^\"\\\n]*+\")*+\}")
_SCALAR = re.compile(r"[\w.+\-]++", re.A)
_NO_ATTRIBUTES = Attributes("", (), "", (), ())
_PAYLOAD_OPCODES = frozenset({"parameter", "constant"})
_MAX_DIGITS = 9
_STRETCH = 1 << 16
"""Characters that are taken apart at once, up to the next line end."""


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
    body = _Body(columns, *_operand_style(text, begin, end + 1))
    try:
        for rows in _stretches(text, begin, end + 1):
            body.read(rows)
        body.check_names()
        parameters = body.ordered_parameters()
    except (_NotPlainError, MalformedError, KeyError):
        return None
    body.append_to(columns)
    computation = Computation(
        len(columns.computations),
        head[2],
        body.start,
        len(columns.names),
        body.root if body.root >= 0 else len(columns.names) - 1,
        parameters,
        columns.line_at(begin),
        suffix[1] or "",
    )
    columns.add_computation(computation, is_entry=bool(head[1]))
    return suffix.end()


def _signature_end(text: str, pos: int) -> int:
    common = _SIGNATURE.match(text, pos)
    return common.end() if common else signature_end(text, pos, len(text))


def _operand_style(text: str, begin: int, end: int) -> tuple[bool, str]:
    """How the first operand list is written: whether with shapes, and the sigil of its names."""
    lists = (
        found[5]
        for found in _INSTRUCTION.finditer(text, begin, end)
        if found[4] not in _PAYLOAD_OPCODES and not found[5].startswith(")")
    )
    sample = next(lists, "")
    if sample.startswith("%"):
        return False, "%"
    if "%" in sample.partition(", metadata=")[0]:
        return True, "%"
    return not _NAME_AT_END.match(sample.partition(")")[0]), ""


def _stretches(text: str, begin: int, end: int) -> Iterator[list[tuple[str, ...]]]:
    """The lines between two line starts, taken apart, some thousand at a time.

    Raises:
        _NotPlainError: a line is no instruction.
    """
    while begin < end:
        stop = text.find("\n", begin + _STRETCH, end) + 1 or end
        rows = _INSTRUCTION.findall(text, begin, stop)
        if len(rows) != text.count("\n", begin, stop):
            raise _NotPlainError
        yield rows
        begin = stop


class _Body:
    """The instructions of one computation, on their way into the columns."""

    def __init__(self, columns: Columns, with_shapes: bool, sigil: str):  # noqa: FBT001
        self.columns = columns
        self.with_shapes, self.sigil = with_shapes, sigil
        self.start = len(columns.names)
        self.root = -1
        self.names: list[str] = []
        self.opcodes: list[str] = []
        self.shapes: list[str] = []
        self.operands: list[tuple[int, ...]] = []
        self.attributes: list[Attributes] = []
        self.payloads: dict[int, str] = {}
        self.controls: dict[int, tuple[int, ...]] = {}
        self.calling: list[int] = []
        self.parameters: list[tuple[int, int]] = []
        self.keys: list[str] = []
        """How a use of each instruction reads."""
        self.numbers: dict[str, int] = {}
        """Instructions by their keys."""
        self._numbers_by_name: dict[str, int] = {}

    def read(self, rows: Sequence[tuple[str, ...]]) -> None:
        """Appends a stretch of instructions.

        Raises:
            _NotPlainError, MalformedError, KeyError: a row is not plain.
        """
        roots, names, shape_texts, opcode_texts, rests = zip(*rows, strict=True)
        first = self.start + len(self.names)
        if "ROOT " in roots:
            if self.root >= 0 or roots.count("ROOT ") > 1:
                raise _NotPlainError
            self.root = first + roots.index("ROOT ")
        shapes, opcodes = self._shared(shape_texts), self._shared(opcode_texts)
        for shape in set(shapes).difference(self.columns.checked_shapes):
            check_shape(shape)
            self.columns.checked_shapes.add(shape)
        if self.with_shapes:
            pairs = zip(shapes, names, strict=True)
            keys = [f"{shape} {self.sigil}{name}" for shape, name in pairs]
        else:
            keys = [self.sigil + name for name in names]
        self.names += names
        self.shapes += shapes
        self.opcodes += opcodes
        self.keys += keys
        self._read_rests(first, zip(keys, opcodes, rests, strict=True))

    def _shared(self, texts: Iterable[str]) -> list[str]:
        """The same texts, equal ones as one object: less memory, and nearer to hand."""
        known = self.columns.known_texts
        return [known.setdefault(text, text) for text in texts]

    def _read_rests(self, first: int, rows: Iterable[tuple[str, str, str]]) -> None:
        """Reads operands and attributes, from behind the opcodes on."""
        numbers = self.numbers
        number_of = numbers.__getitem__
        add_operands, add_attributes = self.operands.append, self.attributes.append
        known = self.columns.known_attributes
        for number, (key, opcode, rest) in enumerate(rows, first):
            arguments, _, attribute_text = rest.partition("), ")
            if not attribute_text:
                arguments = rest[:-1]
                if not rest.endswith(")"):
                    raise _NotPlainError
            if opcode in _PAYLOAD_OPCODES:
                word = _SCALAR.fullmatch(arguments)
                if not word:
                    arguments, attribute_text = _split_call(rest)
                self._keep_payload(number, opcode, arguments.strip(), is_word=bool(word))
                add_operands(())
            elif arguments in numbers:
                add_operands((numbers[arguments],))
            else:
                try:
                    add_operands(tuple(map(number_of, arguments.split(", "))))
                except KeyError:
                    arguments, attribute_text = _split_call(rest)
                    arguments = _COMMENT.sub("", arguments)
                    add_operands(self._odd_operands(arguments, number))
            if attribute_text in known:
                add_attributes(known[attribute_text])
            else:
                add_attributes(self._linked_attributes(number, attribute_text))
            numbers[key] = number

    def check_names(self) -> None:
        """Makes sure that no two instructions share a name.

        Raises:
            _NotPlainError: two do.
        """
        if len(set(self.names)) != len(self.names):
            raise _NotPlainError

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

    def _keep_payload(self, number: int, opcode: str, payload: str, *, is_word: bool) -> None:
        if opcode == "constant":
            shape = self.shapes[number - self.start]
            if not (is_word and shape.endswith("[]")):
                check_literal(shape, payload)
        else:
            if not (payload.isdecimal() and payload.isascii() and len(payload) <= _MAX_DIGITS):
                raise _NotPlainError
            self.parameters.append((int(payload), number))
        self.payloads[number] = payload

    def _odd_operands(self, arguments: str, number: int) -> tuple[int, ...]:
        """No operands, operands between comments, or tuples that hold ``", "``."""
        if not arguments:
            return ()
        pieces = arguments.split(", ")
        if all(map(self.numbers.__contains__, pieces)):
            return tuple(map(self.numbers.__getitem__, pieces))
        by_name = self._by_name()
        found = tuple(by_name[name] for name in _NAME_AT_END.findall(arguments))
        expected = ", ".join([self.keys[operand - self.start] for operand in found])
        if _COMMENT.sub("", expected) != arguments or max(found, default=-1) >= number:
            raise _NotPlainError
        return found

    def _linked_attributes(self, number: int, text: str) -> Attributes:
        """Attributes read for the first time, or such as link an instruction to others."""
        attributes = self.columns.linking_attributes.get(text) or self._new_attributes(text)
        if attributes.callees:
            self.calling.append(number)
        if attributes.controls:
            by_name = self._by_name()
            predecessors = tuple(by_name[name] for name in attributes.controls)
            if max(predecessors) >= number:
                raise _NotPlainError
            self.controls[number] = predecessors
        return attributes

    def _new_attributes(self, text: str) -> Attributes:
        """Reads an attribute list; most new ones differ from known ones in metadata alone."""
        known, linking = self.columns.known_attributes, self.columns.linking_attributes
        head, behind, metadata = text.rpartition("metadata={")
        alone = behind and "metadata=" not in head and (not head or head.endswith(", "))
        if alone and _METADATA.fullmatch(metadata):
            plain = (
                known.get(head[:-2]) or linking.get(head[:-2]) or self._new_attributes(head[:-2])
            )
            attributes = Attributes(
                ", " + text, plain.items, metadata[:-1], plain.callees, plain.controls
            )
        else:
            attributes = read_attributes(", " + text) if text else _NO_ATTRIBUTES
        (linking if attributes.callees or attributes.controls else known)[text] = attributes
        return attributes

    def _by_name(self) -> dict[str, int]:
        """Instructions by name, those of this stretch among them."""
        known = len(self._numbers_by_name)
        self._numbers_by_name.update(zip(self.names[known:], count(self.start + known)))
        return self._numbers_by_name


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
