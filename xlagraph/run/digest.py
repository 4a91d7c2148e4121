"""The name that a graph is stored by: the same for every capture of the same computation."""

from __future__ import annotations

import hashlib
import re
from typing import TYPE_CHECKING

from xlagraph.errors import BytesError
from xlagraph.wire import BYTES, wire_fields

if TYPE_CHECKING:
    from collections.abc import Iterator

_METADATA = re.compile(rb', metadata=\{(?:[^{}"]|"(?:[^"\\]|\\.)*"|\{[^{}"]*\})*\}(?=, |\n)')
_ELIDED = b"constant({...})"
"""What XLA's text has in place of a constant of more than ten elements."""
_COMPUTATIONS, _INSTRUCTIONS, _LITERAL = 3, 2, 8
"""Fields of ``HloModuleProto``, ``HloComputationProto`` and ``HloInstructionProto`` (hlo.proto)."""
_IS_CONSTANT = b"\x12\x08constant"
"""Field 2 of an instruction, its opcode, as it stands in the bytes."""


def digest_graph(text: bytes, proto: bytes | None = None) -> str:
    """Hex BLAKE2b-128 of a module's text without its metadata.

    Source lines are no part of torch_xla's cache key: a graph has the same name with them and
    without, and when lines were added to the program above those that it comes from. The values
    that the text leaves out count where ``proto``, the same module as a protobuf, has them. Linear
    in the text, and then in the protobuf.
    """
    digest = hashlib.blake2b(_METADATA.sub(b"", text), digest_size=16)
    if proto is not None and _ELIDED in text:
        try:
            for literal in _literals(proto):
                digest.update(literal)
        except BytesError:  # cut off: then the text alone names it
            return digest_graph(text)
    return digest.hexdigest()


def _literals(proto: bytes) -> Iterator[memoryview]:
    """The literals of a module's constants, as they are serialized, in the module's order."""
    view = memoryview(proto)
    for start, stop in _parts(proto, 0, len(proto), _COMPUTATIONS):
        for first, behind in _parts(proto, start, stop, _INSTRUCTIONS):
            if proto.find(_IS_CONSTANT, first, behind) >= 0:
                for begin, end in _parts(proto, first, behind, _LITERAL):
                    yield view[begin:end]


def _parts(proto: bytes, start: int, stop: int, number: int) -> Iterator[tuple[int, int]]:
    for field in wire_fields(proto, start, stop, ""):
        if (field.number, field.wire) == (number, BYTES):
            yield field.start, field.stop
