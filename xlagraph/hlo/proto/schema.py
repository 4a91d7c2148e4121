"""Message classes for the fields that are read, made when this module is first imported.

The protobuf library parses with a descriptor built from `fields.MESSAGES`, in a pool of its
own, so that it never meets the definitions of TensorFlow or other libraries.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, NamedTuple

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
from google.protobuf.unknown_fields import UnknownFieldSet

from xlagraph.hlo.proto.fields import MESSAGES, SET_ASIDE

if TYPE_CHECKING:
    from collections.abc import Iterator

Message = Any
"""A protobuf message; the library's classes are made at run time and have no static type."""

_PACKAGE = "xlagraph_hlo"
_OWN = frozenset({"name", "id", "operand_ids"})
"""Fields in which an instruction differs from others like it."""


class Field(NamedTuple):
    """One field of the table."""

    number: int
    name: str
    kind: str
    """A scalar type's or a message's name."""
    label: str
    """``*`` repeated, ``?`` with presence, or ``""``."""


class Unknown(NamedTuple):
    """A field that the table does not have."""

    path: str
    """Names of the fields that lead to it and its number: ``sharding.17``."""
    value: int | bytes


def read_table(text: str) -> dict[str, dict[int, Field]]:
    """The messages of a table such as `fields.MESSAGES`."""
    table: dict[str, dict[int, Field]] = {}
    for block in re.findall(r"^(\w+)\n((?: .*\n)+)", text, re.M):
        rows = re.findall(r"(\d+) (\w+) (\w+)([*?]?)", block[1])
        table[block[0]] = {int(row[0]): Field(int(row[0]), *row[1:]) for row in rows}
    return table


TABLE = read_table(MESSAGES)


def _views() -> dict[str, dict[int, Field]]:
    """Messages of which few fields are known; all others are unknown, and so stay as bytes."""
    instruction = TABLE["HloInstructionProto"].items()
    computation = {
        number: field._replace(kind="InstructionView") if field.name == "instructions" else field
        for number, field in TABLE["HloComputationProto"].items()
    }
    return {
        "InstructionView": {n: field for n, field in instruction if field.name in _OWN},
        # Left as bytes, for many instructions have them in common and equal ones are read once.
        "RestView": {n: f._replace(kind="bytes") for n, f in instruction if f.name == "metadata"},
        "BaseView": {
            n: f._replace(kind="bytes") if f.name == "shape" else f
            for n, f in instruction
            if f.name in ("shape", "parameter_number")
        },
        "ComputationView": computation,
        "Instructions": {2: Field(2, "instructions", "bytes", "*")},
    }


def _classes(table: dict[str, dict[int, Field]]) -> dict[str, Message]:
    file = descriptor_pb2.FileDescriptorProto(
        name="xlagraph/hlo.proto", package=_PACKAGE, syntax="proto3"
    )
    kinds = descriptor_pb2.FieldDescriptorProto
    for name, fields in table.items():
        message = file.message_type.add(name=name)
        for field in fields.values():
            made = message.field.add(name=field.name, number=field.number)
            made.label = kinds.LABEL_REPEATED if field.label == "*" else kinds.LABEL_OPTIONAL
            if field.kind in table:
                made.type, made.type_name = kinds.TYPE_MESSAGE, f".{_PACKAGE}.{field.kind}"
            else:
                made.type = kinds.Type.Value(f"TYPE_{field.kind.upper()}")
            if field.label == "?":
                made.proto3_optional = True
                made.oneof_index = len(message.oneof_decl)
                message.oneof_decl.add(name=f"_{field.name}")
    pool = descriptor_pool.DescriptorPool()
    pool.AddSerializedFile(file.SerializeToString())
    return {
        name: message_factory.GetMessageClass(pool.FindMessageTypeByName(f"{_PACKAGE}.{name}"))
        for name in table
    }


CLASSES = _classes({**TABLE, **_views()})
"""Message classes by name; ``InstructionView`` and the like see a part of the fields."""


def has_unknown(message: Message) -> bool:
    """Whether a message holds fields that the table does not have; drops them from it."""
    size = message.ByteSize()
    message.DiscardUnknownFields()
    return bool(message.ByteSize() != size)


def unknown_fields(name: str, data: bytes) -> list[Unknown]:
    """What a message, read by the table, holds beyond it; fields set aside do not count."""
    return list(_unknown(CLASSES[name].FromString(data), name, ""))


def _unknown(message: Message, name: str, path: str) -> Iterator[Unknown]:
    set_aside = SET_ASIDE.get(name, {})
    for field in UnknownFieldSet(message):
        if field.field_number not in set_aside:
            yield Unknown(f"{path}{field.field_number}", field.data)
    for descriptor, value in message.ListFields():
        below = descriptor.message_type
        if below is None:
            continue
        for part in value if TABLE[name][descriptor.number].label == "*" else [value]:
            if has_unknown(CLASSES[below.name].FromString(part.SerializeToString())):
                yield from _unknown(part, below.name, f"{path}{descriptor.name}.")
