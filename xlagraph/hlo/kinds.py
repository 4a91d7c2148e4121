"""From an entry to a module: each kind of text has its reader, or a way to convert it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from xlagraph.errors import SpecError
from xlagraph.hlo.reader import read_module

if TYPE_CHECKING:
    from xlagraph.graph import Module
    from xlagraph.hlo.containers import Entry

_CONVERSIONS = {
    "proto": "an HLO protobuf; dump text instead (--xla_dump_hlo_as_text), or convert it with"
    " `run_hlo_module --input_format=pb` or `hlo-translate`",
    "stablehlo": "StableHLO; convert it with `xla-translate --mlir-hlo-to-hlo-text`, or dump"
    " with XLA_SAVE_TENSORS_FMT=hlo",
    "dot": "a Graphviz drawing, which lacks shapes and operand order; dump with"
    " XLA_SAVE_TENSORS_FMT=hlo",
}


def read_entry(entry: Entry) -> Module:
    """Reads the module of an entry.

    Raises:
        InputError: the text is not what its kind says.
        SpecError: a kind that has to be converted first; the message names the way.
    """
    conversion = _CONVERSIONS.get(entry.kind)
    if conversion:
        raise SpecError(f"{entry.file}: entry {entry.ordinal} is {conversion}")
    source = entry.source()
    if entry.kind == "lazy-ir":
        from xlagraph.hlo.lazy_ir import read_lazy_ir

        return read_lazy_ir(source)
    return read_module(source.text, source.name, source.first_line)
