"""What tests of the protobuf reader share: XLA's own protobufs, and messages made by hand."""

from __future__ import annotations

import mmap
import sys
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hlo_helpers import FIXTURES, xla_module

from xlagraph.canon.form import canonical_lines
from xlagraph.canon.labels import Level
from xlagraph.hlo.proto.header import UNSTATED
from xlagraph.hlo.proto.schema import CLASSES
from xlagraph.wire import wire_fields

if TYPE_CHECKING:
    from collections.abc import Iterator

    from xlagraph.graph import Module

PROTOS = FIXTURES / "protos"
"""Dump folders with text and protobuf of the same compiles (``fixtures/make_protos.py``)."""


def xla_proto(text: str) -> bytes:
    """The HloModuleProto that XLA makes of a text."""
    return proto_and_text(text)[0]


def proto_and_text(text: str) -> tuple[bytes, str]:
    """The HloModuleProto that XLA makes of a text, and the text that it prints of it.

    Both of one reading: for ``{...}`` XLA makes values up, other ones each time.
    """
    module = xla_module(text)
    return bytes(module.as_serialized_hlo_module_proto()), printed(module)


def printed(module: Any) -> str:
    """XLA's own module as XLA prints it, large constants included."""
    from jaxlib import _hlo

    options = _hlo.HloPrintOptions()
    options.print_large_constants = True
    return str(module.to_string(options))


def canonical(module: Module, level: Level = Level.NAMES) -> list[str]:
    """The canonical text, without header fields that a protobuf has no place for."""
    header = tuple(field for field in module.header if field[0] not in UNSTATED)
    return list(canonical_lines(replace(module, header=header), level))


def message(kind: str, **fields: Any) -> Any:
    """A message of the table."""
    return CLASSES[kind](**fields)


def scalar(element_type: int = 11, dimensions: tuple[int, ...] = ()) -> Any:
    """A shape: ``f32[]`` unless something else is asked for."""
    layout = message("LayoutProto", minor_to_major=range(len(dimensions) - 1, -1, -1))
    return message("ShapeProto", element_type=element_type, dimensions=dimensions, layout=layout)


def row(number: int, opcode: str, operands: tuple[int, ...] = (), **fields: Any) -> Any:
    """An instruction of shape ``f32[]``, called after its id."""
    fields.setdefault("name", f"{opcode}.{number}")
    fields.setdefault("shape", scalar())
    return message("HloInstructionProto", id=number, opcode=opcode, operand_ids=operands, **fields)


def module(*rows: Any, root: int | None = None, **fields: Any) -> Any:
    """A module of one computation; the last instruction is its root."""
    body = message(
        "HloComputationProto",
        name="main",
        id=1,
        instructions=rows,
        root_id=rows[-1].id if root is None else root,
    )
    return message(
        "HloModuleProto", name="made", entry_computation_id=1, computations=[body], **fields
    )


def varint(number: int) -> bytes:
    """A number as protobufs encode it."""
    made = b""
    while number > 0x7F:
        made += bytes([number & 0x7F | 0x80])
        number >>= 7
    return made + bytes([number])


def field(number: int, value: bytes) -> bytes:
    """A field of bytes, text or a message, encoded."""
    return varint(number << 3 | 2) + varint(len(value)) + value


def with_unknown(data: Any, number: int, value: bytes = b"x") -> bytes:
    """A message with one more field, which no table has."""
    return bytes(data.SerializeToString()) + field(number, value)


LIBRARIES = ("jaxlib/libjax_common.so", "_XLAC.*.so")
"""Extension modules that have XLA's own definitions in them, as they were compiled."""


@cache
def xla_definitions(library: str) -> dict[str, Any]:
    """XLA's messages and enums by name, taken from a library that is installed; or nothing.

    Generated C++ code holds its ``.proto`` file as a serialized FileDescriptorProto.
    """
    from google.protobuf.descriptor_pb2 import FileDescriptorProto

    found: dict[str, Any] = {}
    paths = (path for folder in sys.path if folder for path in Path(folder).glob(library))
    for path in paths:
        with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
            for name in (b"xla/service/hlo.proto", b"xla/xla_data.proto"):
                raw = _descriptor(data, name)
                file_ = FileDescriptorProto.FromString(raw)
                found.update(_flat(file_.message_type, ""))
                found.update((item.name, item) for item in file_.enum_type)
    return found


def _flat(messages: Any, prefix: str) -> Iterator[tuple[str, Any]]:
    for item in messages:
        yield prefix + item.name, item
        yield from ((f"{prefix}{item.name}_{enum.name}", enum) for enum in item.enum_type)
        yield from _flat(item.nested_type, f"{prefix}{item.name}_")


def _descriptor(data: mmap.mmap, name: bytes) -> bytes:
    """The bytes from the file's name (field 1) on, as far as they are fields of such a file."""
    start = data.find(b"\n" + bytes([len(name)]) + name)
    end, last = start, 0
    for field in wire_fields(data, start, len(data), "library"):
        # name, package, dependencies, messages, enums, ..., options, syntax: in this order.
        if field.number < last or field.number > _LAST or field.wire != _BYTES:
            break
        end, last = field.stop, field.number
        if field.number == _LAST:
            break
    return bytes(data[start:end])


_LAST, _BYTES = 12, 2
