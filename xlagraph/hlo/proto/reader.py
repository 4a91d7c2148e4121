"""From a protobuf to `Module`: the same value as the text of the same module gives.

Computations are parsed one by one. Of each instruction the library hands over name, id, shape,
metadata and operands; the rest stays as bytes, and equal bytes are read once (`kinds`).
"""

from __future__ import annotations

from operator import attrgetter
from typing import TYPE_CHECKING

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
    from collections.abc import Sequence

_COMPUTATIONS = 3
_INSTRUCTIONS = 2
_SHAPE = attrgetter("shape")
_LARGE = 1 << 20
_SMALLEST = 8
"""Bytes that an instruction has at least: name, opcode and shape, each with tag and length."""


def read_proto(data: bytes | mmap.mmap, name: str = "<protobuf>") -> Module:
    """Reads an HloModuleProto, or an HloProto or HloSnapshot around one.

    Time and memory are linear in the size of the module.

    Raises:
        BytesError: the bytes are cut off, are another message, or are no sound module.
    """
    with without_collector():
        return _read(data, name)


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


class _Reader:
    """Reads computations; what they share is read once for the whole module."""

    def __init__(self, data: bytes | mmap.mmap, name: str, payloads: Sequence[bytes]):
        self.data = data
        self.name = name
        self.payloads = payloads
        self._kinds: dict[bytes, Kind] = {}
        self._metadata: dict[bytes, str] = {b"": ""}
        self._rows: dict[bytes, Row] = {}
        self._shapes: dict[bytes, str] = {}

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
        try:
            self._fill(body, list(view.instructions))
        except DecodeError as error:
            message = f"instruction {len(body.names)} of {body.name!r} cannot be parsed: {error}"
            raise BytesError(message, self.name, start) from None
        except ValueError as error:
            message = f"instruction {len(body.names)} of {body.name!r}: {error}"
            raise BytesError(message, self.name, start) from None
        return body

    def _fill(self, body: Body, messages: Sequence[Message]) -> None:
        """Takes each instruction apart; the loop that most of the time goes into."""
        rows = self._rows
        add_name, add_id = body.names.append, body.ids.append
        add_operands, add_row = body.operands.append, body.rows.append
        own = attrgetter("name", "id", "operand_ids")
        for message in messages:
            name, number, operands = own(message)
            add_name(name)
            add_id(number)
            add_operands(operands[:])
            clear = message.ClearField
            clear("name")
            clear("id")
            clear("operand_ids")
            rest = message.SerializePartialToString()
            row = rows.get(rest)
            if row is None:
                row = rows[rest] = self._row(rest)
            add_row(row)
        body.shapes += map(_SHAPE, body.rows)
        body.find_special()

    def _row(self, rest: bytes) -> Row:
        message = CLASSES["RestView"].FromString(rest)
        shape, metadata = message.shape, message.metadata
        message.ClearField("shape")
        message.ClearField("metadata")
        kind = message.SerializePartialToString()
        if kind not in self._kinds:
            self._kinds[kind] = read_kind(kind, self.payloads)
        if metadata not in self._metadata:
            self._metadata[metadata] = metadata_text(CLASSES["OpMetadata"].FromString(metadata))
        if shape not in self._shapes:
            self._shapes[shape] = read_shape(shape)
        return Row(self._kinds[kind], self._shapes[shape], self._metadata[metadata])

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
