"""Finding modules in files, folders and streams, and an account of what was dropped."""

from __future__ import annotations

import gzip
import io

import pytest
import zstandard
from hlo_helpers import FIXTURES

from xlagraph import content
from xlagraph.errors import InputError, SpecError
from xlagraph.graph import SourceFrame
from xlagraph.hlo import find_entry, load, open_entries


def module(name: str, opcode: str = "negate") -> str:
    return (
        f"HloModule {name}\n\nENTRY %main (p: f32[]) -> f32[] {{\n  %p = f32[] parameter(0)\n"
        f"  ROOT %r = f32[] {opcode}(%p)\n}}\n"
    )


def saved(name: str, graph_hash: str, *, hashes: str = "Root Hashes", sharding: str = "") -> str:
    trailer = f"\n\nGraph Hash: {graph_hash}\n" if graph_hash else ""
    return (
        "[ScheduleSyncTensorsGraph]\nGraph Name: train\nTensorsGraphInfo:\n"
        "  sync (torch_xla/torch_xla.py:87)\n  <module> (train step.py:16)\n\n"
        f"{hashes}: (1d9635b8, ee6e03fe)\n\n## BEGIN_GRAPH\n{module(name)}\n{sharding}{trailer}"
        "\n## END_GRAPH\n\n"
    )


@pytest.fixture
def saved_file(tmp_path):
    path = tmp_path / "dump.hlo.3"
    sharding = (
        "#OUTPUT_SHARDING_BEGIN\n\n0 {replicated}\n1 {devices=[2]<=[2]}\n\n#OUTPUT_SHARDING_END\n"
    )
    path.write_text(
        saved("first.1", "aaaa1111")
        + saved("second.2", "", hashes="Hashes")
        + saved("third.3", "bbbb2222", sharding=sharding)
        + saved("first.1", "aaaa1111")
    )
    return path


def test_entries_of_a_save_tensors_file(saved_file):
    listing = open_entries(str(saved_file))
    assert not listing.dropped
    first, second, third, last = listing.entries
    assert [e.ordinal for e in listing.entries] == [1, 2, 3, 4]
    assert first.form == "hlo"
    assert first.rank == 3
    assert (first.module, first.graph_hash) == ("first.1", "aaaa1111")
    assert first.preamble.event == "ScheduleSyncTensorsGraph"
    assert first.preamble.graph_name == "train"
    assert first.frames == (
        SourceFrame("torch_xla/torch_xla.py", 87, "sync"),
        SourceFrame("train step.py", 16, "<module>"),
    )
    assert second.preamble.root_hashes == ("1d9635b8", "ee6e03fe")
    assert second.graph_hash == ""
    assert third.preamble.output_sharding == "0 {replicated}\n1 {devices=[2]<=[2]}"
    assert last.load().name == "first.1"


def test_lines_count_in_the_whole_file(saved_file):
    lines = saved_file.read_text().splitlines()
    for entry in open_entries(str(saved_file)).entries:
        read = entry.load()
        assert lines[entry.line - 1].startswith("HloModule")
        assert "ROOT" in lines[read.line_of(read.entry_computation.root) - 1]


@pytest.mark.parametrize(
    ("selector", "name"),
    [("1", "first.1"), ("3", "third.3"), ("-1", "first.1"), ("second.2", "second.2")],
)
def test_specs_pick_by_number_and_name(saved_file, selector, name):
    assert load(f"{saved_file}:{selector}").name == name


def test_specs_pick_by_graph_hash_prefix(saved_file):
    assert find_entry(f"{saved_file}:bbbb").ordinal == 3
    assert find_entry(f"{saved_file}:aaaa1111").ordinal == 1, "the same graph twice is no choice"


@pytest.mark.parametrize(
    ("selector", "message"),
    [
        ("", "holds 4 modules to choose from"),
        (":5", "holds 4 modules, there is no 5"),
        (":-5", "no module is called"),
        (":nothing", "no module is called 'nothing'"),
        (":1:before:x", "expected 'before' or 'after'"),
    ],
)
def test_specs_that_pick_nothing_or_too_much(saved_file, selector, message):
    with pytest.raises(SpecError, match=message):
        find_entry(f"{saved_file}{selector}")


def test_a_missing_file_is_named():
    with pytest.raises(SpecError, match=r"nowhere\.hlo: no such file or folder"):
        load("nowhere.hlo")


def test_a_colon_in_a_path_is_no_selector(tmp_path):
    path = tmp_path / "a:1"
    path.write_text(module("colon"))
    assert load(str(path)).name == "colon"
    assert load(f"{path}:1").name == "colon"


def test_a_truncated_module_costs_only_itself(saved_file):
    text = saved_file.read_text()
    saved_file.write_text(text[:-60] + "\n" + saved("after.5", "cccc") + text[:300])
    listing = open_entries(str(saved_file))
    assert [e.module for e in listing.entries] == ["first.1", "second.2", "third.3", "after.5"]
    cut, last = listing.dropped
    assert "cut off" in str(cut)
    assert cut.line == 4 + text[:-60].count("\n", 0, text.rindex("\nHloModule")) - 2
    assert last.stop == len(saved_file.read_bytes())


def test_an_entry_that_was_cut_out_of_a_save_tensors_file(tmp_path):
    path = tmp_path / "cut.hlo"
    path.write_text(f"{module('cut.1')}\n\nGraph Hash: 4f9b97ac\n")
    (entry,) = open_entries(str(path)).entries
    assert (entry.graph_hash, entry.load().name) == ("4f9b97ac", "cut.1")


def test_modules_one_after_another(tmp_path):
    path = tmp_path / "many.hlo"
    path.write_text("// exported\n" + module("a") + module("b") + module("c")[:-30])
    listing = open_entries(str(path))
    assert [(e.module, e.line) for e in listing.entries] == [("a", 2), ("b", 8)]
    assert [d.line for d in listing.dropped] == [14]
    assert load(f"{path}:b").name == "b"


def test_text_before_the_first_module_is_accounted_for(tmp_path):
    path = tmp_path / "log.txt"
    path.write_text("some log line\n" + module("a"))
    listing = open_entries(str(path))
    assert [e.module for e in listing.entries] == ["a"]
    assert [d.reason for d in listing.dropped] == ["text before the first module"]


def test_a_single_cut_module_gives_the_readers_error(tmp_path):
    path = tmp_path / "one.hlo"
    path.write_text(module("a")[:-2])
    with pytest.raises(InputError, match="expected '}' at the end of the computation"):
        load(str(path))


def test_a_text_without_header_is_one_entry(tmp_path):
    path = tmp_path / "bare.hlo"
    path.write_text(module("a").partition("\n")[2])
    assert load(str(path)).name == "main"


def test_an_empty_file_holds_nothing(tmp_path):
    path = tmp_path / "empty.hlo"
    path.write_text("")
    assert open_entries(str(path)).entries == ()
    with pytest.raises(SpecError, match="holds no module"):
        load(str(path))


@pytest.mark.parametrize("compress", [gzip.compress, zstandard.ZstdCompressor().compress])
def test_compressed_files_are_told_by_their_bytes(tmp_path, compress, saved_file):
    path = tmp_path / "compressed"
    path.write_bytes(compress(saved_file.read_bytes()))
    assert load(f"{path}:3").name == "third.3"


def test_a_cut_compressed_file_gives_what_is_left_and_says_so(tmp_path):
    path = tmp_path / "cut.gz"
    path.write_bytes(gzip.compress(module("a").encode())[:-9])
    listing = open_entries(str(path))
    assert "damaged or cut off" in listing.dropped[-1].reason


def test_standard_input_can_be_opened_twice(monkeypatch):
    class Stream:
        buffer = io.BytesIO((module("a") + module("b", "abs")).encode())

    monkeypatch.setattr("sys.stdin", Stream)
    content.standard_input.cache_clear()
    assert load("-:1").name == "a"
    assert load("-:2").opcodes[1] == "abs"
    assert open_entries("-").entries[0].file == "<stdin>"
    content.standard_input.cache_clear()


@pytest.fixture
def dump_folder(tmp_path):
    folder = tmp_path / "dump"
    folder.mkdir()
    for name in (
        "module_0001.jit_f.before_optimizations.txt",
        "module_0001.jit_f.cpu_after_optimizations.txt",
        "module_0003.SyncTensorsGraph.7.before_optimizations.txt",
    ):
        (folder / name).write_text(module(name.split(".")[1]))
    for name in (
        "module_0001.jit_f.cpu_after_optimizations-buffer-assignment.txt",
        "module_0001.jit_f.ir-with-opt.ll",
        "module_0001.jit_f.x.o",
    ):
        (folder / name).write_text("x")
    return folder


def test_dump_folders_pair_before_and_after(dump_folder):
    listing = open_entries(str(dump_folder))
    assert listing.ignored == 3
    assert [(e.ordinal, e.module, e.stage) for e in listing.entries] == [
        (1, "jit_f", "before"),
        (1, "jit_f", "after"),
        (3, "SyncTensorsGraph.7", "before"),
    ]
    (before, after), (alone, nothing) = listing.pairs()
    assert before
    assert after
    assert alone
    assert nothing is None
    assert load(alone.spec).name == "SyncTensorsGraph"


def test_dump_folders_open_before_optimization_unless_asked(dump_folder):
    assert find_entry(f"{dump_folder}:1").stage == "before"
    assert find_entry(f"{dump_folder}:0001:after").stage == "after"
    assert find_entry(f"{dump_folder}:jit_f:before").stage == "before"
    with pytest.raises(SpecError, match="no module is called '3'"):
        find_entry(f"{dump_folder}:3:after")


def test_run_folders_open_by_digest(tmp_path):
    graphs = tmp_path / "run" / "graphs"
    graphs.mkdir(parents=True)
    data = zstandard.ZstdCompressor().compress(module("kept").encode())
    (graphs / "4f9b97611789.hlo.zst").write_bytes(data)
    (graphs / "README").write_text("")
    assert load(f"{tmp_path / 'run'}:4f9b").name == "kept"
    assert open_entries(str(tmp_path / "run")).ignored == 1


def test_stablehlo_is_refused_with_the_way_to_convert():
    corpus = FIXTURES / "corpus"
    with pytest.raises(SpecError, match="StableHLO; convert it with"):
        load(str(corpus / "jax_attention.stablehlo.mlir.gz"))


def test_opening_an_early_entry_reads_no_further(saved_file, monkeypatch):
    looked_at = []
    original = content.Content.lines_between

    def spy(self, start, stop):
        looked_at.append(stop)
        return original(self, start, stop)

    monkeypatch.setattr(content.Content, "lines_between", spy)
    find_entry(f"{saved_file}:2")
    second = open_entries(str(saved_file)).entries[1]
    assert max(looked_at[:2]) <= second.start
