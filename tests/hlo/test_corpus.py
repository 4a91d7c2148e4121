"""Modules that torch_xla and JAX wrote: both ways, the printer and XLA agree on all of them."""

from __future__ import annotations

import pytest
from hlo_helpers import (
    FIXTURES,
    assert_equal_graphs,
    shape_of_graph,
    xla_module,
    xla_shape_of_graph,
)

from xlagraph.hlo import load, open_entries, read_module
from xlagraph.hlo.printer import SHORT, PrintStyle, print_module
from xlagraph.hlo.verify import verify

CORPUS = FIXTURES / "corpus"
PATHS = sorted(CORPUS.rglob("*.hlo*.gz")) + sorted(CORPUS.rglob("*optimizations.txt.gz"))


def different_entries(path):
    """The entries of a file, each graph once."""
    entries = open_entries(str(path)).entries
    return {entry.graph_hash or entry.ordinal: entry for entry in entries}.values()


@pytest.mark.parametrize("path", PATHS, ids=lambda path: path.name)
def test_both_ways_and_xla_agree(path):
    for entry in different_entries(path):
        text = entry.source().text
        module = entry.load()
        verify(module)
        assert_equal_graphs(module, read_module(text, plain=False))
        assert shape_of_graph(module) == xla_shape_of_graph(text)


@pytest.mark.parametrize("path", PATHS, ids=lambda path: path.name)
def test_xla_finds_the_same_module_in_what_is_printed(path):
    for entry in different_entries(path):
        module = entry.load()
        printed = print_module(module)
        assert_equal_graphs(module, read_module(printed))
        assert xla_module(printed).to_string() == xla_module(entry.source().text).to_string()
        assert xla_shape_of_graph(print_module(module, SHORT)) == shape_of_graph(module)


@pytest.mark.parametrize("path", sorted(CORPUS.glob("torch_*.hlo.0.gz")), ids=lambda p: p.name)
def test_the_long_form_is_what_torch_xla_writes(path):
    for entry in different_entries(path):
        text = entry.source().text
        assert print_module(entry.load()).split() == text.split()


def test_newer_dumps_differ_by_operand_shapes_only():
    for entry in open_entries(str(CORPUS / "torch_dump")).entries:
        printed = print_module(entry.load(), PrintStyle(operand_shapes=False))
        assert printed.split() == entry.source().text.split()


def test_entries_of_a_training_run():
    listing = open_entries(str(CORPUS / "torch_mlp.debug.hlo.0.gz"))
    assert not listing.dropped
    assert all(e.graph_hash and e.frames for e in listing.entries)
    assert listing.entries[-1].frames[1].file == "make_corpus_torch.py"
    module = listing.entries[-1].load()
    files = {source.file for i in range(len(module)) if (source := module.source(i))}
    assert {"linear.py", "adam.py"} <= files


def test_lazy_ir_is_a_graph():
    for entry in open_entries(str(CORPUS / "torch_mlp.ir.0.gz")).entries:
        assert entry.form == "lazy-ir"
        module = entry.load()
        verify(module)
        root = module.entry_computation.root
        assert module.opcodes[root] == "tuple"
        outputs = [module.attributes[i].get("ROOT") for i in module.operands[root]]
        assert outputs == [str(at) for at in range(len(outputs))]
        assert "aten::addmm" in module.opcodes


def test_a_protobuf_that_jax_wrote_is_read():
    module = load(str(CORPUS / "jax_scan.hlo.pb"))
    verify(module)
    assert "while" in module.opcodes
