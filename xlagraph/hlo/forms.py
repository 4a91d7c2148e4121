"""From an entry to a module: each form of input has its reader, or a way to convert it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from xlagraph.errors import BytesError, InputError, Source, SpecError
from xlagraph.hlo.reader import read_module

if TYPE_CHECKING:
    import mmap

    from xlagraph.graph import Module
    from xlagraph.hlo.containers import Entry

_CONVERSIONS = {
    "stablehlo": "StableHLO; convert it with `xla-translate --mlir-hlo-to-hlo-text`, or dump"
    " with XLA_SAVE_TENSORS_FMT=hlo",
    "dot": "a Graphviz drawing, which lacks shapes and operand order; dump with"
    " XLA_SAVE_TENSORS_FMT=hlo",
}


def read_entry(entry: Entry) -> Module:
    """Reads the module of an entry.

    Raises:
        InputError: the text, or the protobuf, is not what its form says.
        SpecError: a form that has to be converted first; the message names the way.
    """
    conversion = _CONVERSIONS.get(entry.form)
    if conversion:
        raise SpecError(f"{entry.file}: entry {entry.ordinal} is {conversion}")
    if entry.form == "proto":
        return read_stored(entry.text_beside, entry.data(), entry.file)
    source = entry.source()
    if entry.form == "lazy-ir":
        from xlagraph.hlo.lazy_ir import read_lazy_ir

        return read_lazy_ir(source)
    return read_module(source.text, source.name, source.first_line)


def with_configuration(module: Module, text: str) -> Module:
    """A module read from a protobuf, with the header fields that only its text states."""
    from dataclasses import replace

    from xlagraph.hlo.header import read_header

    first, _, _ = text.partition("\n")
    try:
        name, fields, _, _ = read_header(Source(module.file, first))
    except InputError:  # a field that goes over several lines
        name, fields, _, _ = read_header(Source(module.file, text))
    if name != module.name:
        return module
    own = dict(module.header)
    stated = [
        (key, own.pop(key, value)) for key, value in fields if key in own or key in module.unstated
    ]
    return replace(module, header=(*stated, *own.items()), unstated=frozenset())


def read_stored(text: str | None, proto: bytes | mmap.mmap | None, name: str) -> Module:
    """Reads a module that is stored as text, as a protobuf, or as both.

    Of both the protobuf is read, and the header fields that only the text states.

    Raises:
        InputError: what is stored is not what it should be.
    """
    if proto is None:
        return read_module(text or "", name)
    from xlagraph.hlo.proto.reader import read_proto

    try:
        module = read_proto(proto, name)
    except BytesError:
        if not text:  # else the process may have been killed as it wrote the protobuf
            raise
        return read_module(text, name)
    return with_configuration(module, text) if text else module
