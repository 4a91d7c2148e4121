"""What tests of the reader share: equality of graphs, and XLA's own parser as an oracle."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from xlagraph.graph import Module

if TYPE_CHECKING:
    from collections.abc import Hashable

FIXTURES = Path(__file__).parent.parent / "fixtures"

XLA_REFUSES = {
    "callee_behind_caller": "wants callees first",
    "compact_tuple_element": "newer than the tested jaxlib",
    "header_tables_unknown": "wants known header fields",
    "named_mesh_replica_groups": "newer than the tested jaxlib",
    "single_instruction": "numbers parameters of its own in a single instruction",
    "unknown_things": "wants known opcodes and attributes",
}
"""Dialects that XLA's parser does not read, and why."""

_XLA_NAMES = {
    "Atan2": "atan2",
    "Clz": "count-leading-zeros",
    "Cos": "cosine",
    "Exp": "exponential",
    "Expm1": "exponential-minus-one",
    "Log1p": "log-plus-one",
    "OptimizationBarrier": "opt-barrier",
    "PopulationCount": "popcnt",
    "Sin": "sine",
    "TopK": "topk",
}


def assert_equal_graphs(left: Module, right: Module, *, texts: bool = True) -> None:
    """All that two readings of one module have to agree on; lines may differ."""
    assert left.name == right.name
    assert left.header == right.header
    assert left.entry == right.entry
    for column in ("names", "opcodes", "shapes", "operands"):
        assert list(getattr(left, column)) == list(getattr(right, column)), column
    for column in ("payloads", "callees", "controls", "tables"):
        assert getattr(left, column) == getattr(right, column), column
    unplaced = [replace(c, first_line=0, lines=()) for c in left.computations]
    assert unplaced == [replace(c, first_line=0, lines=()) for c in right.computations]
    for one, other in zip(left.attributes, right.attributes, strict=True):
        assert (one.items, one.metadata) == (other.items, other.metadata)
        assert (one.callees, one.controls) == (other.callees, other.controls)
        assert not texts or one.text == other.text


def shape_of_graph(module: Module) -> Counter[Hashable]:
    """Each computation's instructions by opcode and inputs; names play no part."""
    found: list[Hashable] = []
    for computation in module.computations:
        digests: dict[int, int] = {}
        for number in range(computation.start, computation.stop):
            inputs = tuple(digests[operand] for operand in module.operands[number])
            digests[number] = hash((module.opcodes[number], inputs))
        found.append(frozenset(Counter(digests.values()).items()))
    return Counter(found)


def xla_shape_of_graph(text: str) -> Counter[Hashable]:
    """The same of XLA's own reading."""
    found: list[Hashable] = []
    for computation in xla_module(text).computations():
        digests: dict[str, int] = {}
        for instruction in computation.instructions():
            inputs = tuple(digests[operand.name] for operand in instruction.operands())
            digests[instruction.name] = hash((xla_opcode(instruction), inputs))
        found.append(frozenset(Counter(digests.values()).items()))
    return Counter(found)


def xla_module(text: str) -> Any:
    """XLA's own reading; raises what XLA's parser raises."""
    reason = "needs a jaxlib with XLA's parser, which Python 3.10 has none of"
    _hlo = pytest.importorskip("jaxlib._hlo", reason=reason)
    return _hlo.hlo_module_from_text(text)


@cache
def _kebab(name: str) -> str:
    return re.sub(r"(?<!^)(?=[A-Z])", "-", name).lower()


def xla_opcode(instruction: Any) -> str:
    """An instruction's opcode as it is printed."""
    name = str(instruction.opcode).rpartition(".k")[2]
    return _XLA_NAMES.get(name) or _kebab(name)
