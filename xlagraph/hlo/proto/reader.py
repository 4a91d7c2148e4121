"""From a protobuf to `Module`: the same value as the text of the same module gives.

Computations are parsed one by one. Of each instruction the library hands over name, id, shape,
metadata and operands; the rest stays as bytes, and equal bytes are read once (`kinds`): by a
process, not by a module, for the graphs of a program have nearly all of them in common.
"""

from __future__ import annotations

from collections import deque
from itertools import repeat
from operator import attrgetter
from typing import TYPE_CHECKING, TypeVar

from google.protobuf.message import DecodeError

from xlagraph.errors import BytesError
from xlagraph.graph import Module
from xlagraph.hlo.collector import without_collector
from xlagraph.hlo.proto.body import Body
from xlagraph.hlo.proto.header import UNSTATED, header_fields, schedule_of, stack_tables
from xlagraph.hlo.proto.kinds import Kind, Row, read_kind
from xlagraph.hlo.proto.link import link
from xlagraph.hlo.proto.schema import CLASSES, Message, unknown_fields
from xlagraph.hlo.proto.shapes import read_shape
from xlagraph.hlo.proto.sharding import metadata_text
from xlagraph.hlo.proto.wire import module_span
from xlagraph.wire import wire_fields

if TYPE_CHECKING:
    import mmap
    from collections.abc import Callable, Iterator, Sequence

_Read = TypeVar("_Read")
_COMPUTATIONS = 3
_INSTRUCTIONS = 2
_SHAPE = attrgetter("shape")
_OWN = ("name", "id", "operand_ids")
_NAME, _ID, _OPERANDS = map(attrgetter, _OWN)
_METADATA = attrgetter("metadata")
_CLEAR = CLASSES["InstructionView"].ClearField
_REST = CLASSES["InstructionView"].SerializePartialToString
_AT_ONCE = 1 << 14
"""Instructions whose bytes are held at once."""
_LARGE = 1 << 20
_REMEMBERED = 1 << 14
"""Distinct instructions, but for name, number and operands, that are remembered between modules."""
_SMALLEST = 8
"""Bytes that an instruction has at least: name, opcode and shape, each with tag and length."""


def read_proto(data: bytes | mmap.mmap, name: str = "<protobuf>") -> Module:
    """Reads an HloModuleProto, or an HloProto or HloSnapshot around one.

    Time and memory are linear in the size of the module.

    Raises:
        BytesError: the bytes are cut off, are another message, or are no sound module.
    """
    with without_collector():
        try:
            return _read(data, name)
        finally:
            _Known.bound()


def _read(data: bytes | mmap.mmap, name: str) -> Module:
    start, stop = module_span(data, name)
    spans: list[tuple[int, int]] = []
    others: list[bytes] = []
    for field in wire_fields(data, start, stop, name):
        if field.number == _COMPUTATIONS:
            spans.append((field.start, field.stop))
        else:
            others.append(data[field.tag : field.stop])
    if not spans:
        raise BytesError("there is no computation in it; this is no HLO module", name, start)
    head_bytes = b"".join(others)
    head = _parsed("HloModuleProto", head_bytes, name, start, "the module's header")
    unknown = unknown_fields("HloModuleProto", head_bytes)
    schedule = schedule_of(head)
    reader = _Reader(data, name, head.payloads[:])
    bodies = [reader.body(begin, end) for begin, end in spans]
    columns = link(bodies, head, schedule, name)
    try:
        header = header_fields(head, unknown, is_scheduled=bool(schedule))
    except (DecodeError, ValueError) as error:
        raise BytesError(f"the module's header cannot be read: {error}", name, start) from None
    return Module(
        name=head.name or columns.computations[columns.entry].name,
        header=header,
        computations=tuple(columns.computations),
        entry=columns.entry,
        names=columns.names,
        opcodes=columns.opcodes,
        shapes=columns.shapes,
        operands=columns.operands,
        attributes=columns.attributes,
        payloads=columns.payloads,
        callees=columns.callees,
        controls=columns.controls,
        tables=stack_tables(head.stack_frame_index),
        file=name,
        unstated=UNSTATED,
    )


def _parsed(kind: str, data: bytes, name: str, offset: int, what: str) -> Message:
    try:
        return CLASSES[kind].FromString(data)
    except DecodeError as error:
        raise BytesError(f"{what} cannot be parsed: {error}", name, offset) from None


class _WrongError(ValueError):
    """One of several messages cannot be read; `place` is its position."""

    def __init__(self, place: int, error: Exception):
        super().__init__(str(error))
        self.place = place


def _each_once(
    read: Callable[[bytes], _Read], known: dict[bytes, _Read], data: Sequence[bytes]
) -> Iterator[_Read]:
    """What each of `data` says; equal ones are read once, and `known` remembers them."""
    for one in dict.fromkeys(data):
        if one not in known:
            try:
                known[one] = read(one)
            except (DecodeError, ValueError) as error:
                raise _WrongError(data.index(one), error) from None
    return map(known.__getitem__, data)


def _read_metadata(data: bytes) -> str:
    return metadata_text(CLASSES["OpMetadata"].FromString(data))


class _Known:
    """What bytes say that were read already."""

    shared: _Known
    """Of modules without payloads, in which equal bytes say the same."""

    def __init__(self) -> None:
        self.kinds: dict[bytes, Kind] = {}
        self.metadata: dict[bytes, str] = {b"": ""}
        self.rows: dict[bytes, Row] = {}
        self.bases: dict[bytes, tuple[Kind, str]] = {}
        self.shapes: dict[bytes, str] = {}

    @classmethod
    def of(cls, payloads: Sequence[bytes]) -> _Known:
        """For a module with these payloads."""
        return cls() if payloads else cls.shared

    @classmethod
    def bound(cls) -> None:
        """Begins anew when very much is remembered; readers at work keep what they have."""
        if len(cls.shared.rows) > _REMEMBERED:
            cls.shared = cls()


_Known.shared = _Known()


class _Reader:
    """Reads computations; what they share is read once."""

    def __init__(self, data: bytes | mmap.mmap, name: str, payloads: Sequence[bytes]):
        self.data = data
        self.name = name
        self.payloads = payloads
        known = _Known.of(payloads)
        self._kinds, self._metadata, self._rows = known.kinds, known.metadata, known.rows
        self._bases, self._shapes = known.bases, known.shapes

    def body(self, start: int, stop: int) -> Body:
        """The computation between two offsets, its instructions in the order of the file."""
        piece = self.data[start:stop]
        if len(piece) > _LARGE:
            self._check_count(piece, start, stop)
        try:
            view = CLASSES["ComputationView"].FromString(piece)
        except DecodeError:
            raise self._broken(start, stop) from None
        body = Body(view.name, view.id, view.root_id, view.execution_thread, start)
        self._fill(body, list(view.instructions))
        return body

    def _fill(self, body: Body, messages: Sequence[Message]) -> None:
        """Takes instructions apart; most of the time goes into this, so the library loops."""
        for start in range(0, len(messages), _AT_ONCE):
            some = messages[start : start + _AT_ONCE]
            body.names += map(_NAME, some)
            body.ids += map(_ID, some)
            body.operands += [ids[:] for ids in map(_OPERANDS, some)]
            for name in _OWN:
                deque(map(_CLEAR, some, repeat(name)), 0)
            rests = list(map(_REST, some))
            self._read_new(body, rests)
            body.rows += map(self._rows.__getitem__, rests)
        body.shapes += map(_SHAPE, body.rows)
        body.find_special()

    def _read_new(self, body: Body, rests: Sequence[bytes]) -> None:
        """Makes rows of what was not met before; what they have in common is read once."""
        known = self._rows
        new = [rest for rest in dict.fromkeys(rests) if rest not in known]
        messages = list(map(CLASSES["RestView"].FromString, new))
        metadata = list(map(_METADATA, messages))
        deque(map(CLASSES["RestView"].ClearField, messages, repeat("metadata")), 0)
        bases = list(map(CLASSES["RestView"].SerializePartialToString, messages))
        try:
            texts = _each_once(_read_metadata, self._metadata, metadata)
            read = _each_once(self._base, self._bases, bases)
        except _WrongError as error:
            at = len(body.rows) + rests.index(new[error.place]) + 1
            message = f"instruction {at} of {body.name!r}: {error}"
            raise BytesError(message, self.name, body.offset) from None
        for rest, (kind, shape), text in zip(new, read, texts, strict=True):
            known[rest] = Row(kind, shape, text)

    def _base(self, data: bytes) -> tuple[Kind, str]:
        """What is left without metadata, which differs most often."""
        message = CLASSES["BaseView"].FromString(data)
        shape, number = message.shape, message.parameter_number
        message.ClearField("shape")
        message.ClearField("parameter_number")
        rest = message.SerializePartialToString()
        kind = self._kinds.get(rest)
        if kind is None:
            kind = self._kinds[rest] = read_kind(rest, self.payloads)
        if number and kind.opcode == "parameter":
            kind = kind._replace(payload=str(number))
        if shape not in self._shapes:
            self._shapes[shape] = read_shape(shape)
        return kind, self._shapes[shape]

    def _check_count(self, piece: bytes, start: int, stop: int) -> None:
        """Refuses very many empty instructions before each takes memory."""
        rows = _parsed("Instructions", piece, self.name, start, "a computation").instructions
        if len(rows) * _SMALLEST > len(piece):
            raise self._broken(start, stop)

    def _broken(self, start: int, stop: int) -> BytesError:
        """The error for the first instruction of a computation that cannot be parsed."""
        count = 0
        for field in wire_fields(self.data, start, stop, self.name):
            if field.number != _INSTRUCTIONS:
                continue
            count += 1
            try:
                row = CLASSES["InstructionView"].FromString(self.data[field.start : field.stop])
            except DecodeError as error:
                message = f"instruction {count} of a computation cannot be parsed: {error}"
                return BytesError(message, self.name, field.tag)
            if not row.name:
                message = f"instruction {count} of a computation has no name"
                return BytesError(message, self.name, field.tag)
        return BytesError("a computation cannot be parsed", self.name, start)
