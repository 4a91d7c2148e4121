"""Protobufs wherever a module can be: files, dump folders, run folders, streams."""

from __future__ import annotations

import gzip
import io
import shutil
import struct
import subprocess
import sys

import pytest
import zstandard
from click.testing import CliRunner
from proto_helpers import PROTOS, canonical, field, message, module, row

from xlagraph import content
from xlagraph.canon.form import level_digests
from xlagraph.cli.app import cli
from xlagraph.diff.changes import diff_modules
from xlagraph.errors import BytesError, SpecError
from xlagraph.hlo import find_entry, load, open_entries, read_module, read_stored
from xlagraph.hlo.proto.reader import read_proto
from xlagraph.hlo.verify import verify
from xlagraph.run.reader import RunError, read_run
from xlagraph.run.writer import GRAPH_SUFFIX, PROTO_SUFFIX

FOLDERS = sorted(PROTOS.iterdir())
LOOP = PROTOS / "jax_loop"


def unpacked(folder, suffix, stage="before") -> bytes:
    (path,) = folder.glob(f"*{stage}_optimizations.{suffix}.gz")
    return gzip.decompress(path.read_bytes())


@pytest.fixture
def dump(tmp_path):
    """The sharded program's dump as XLA writes it, not compressed."""
    folder = tmp_path / "dump"
    folder.mkdir()
    for path in (PROTOS / "jax_sharded").iterdir():
        (folder / path.stem).write_bytes(gzip.decompress(path.read_bytes()))
    return folder


# --- the same compile, written as both ---------------------------------------------------------


@pytest.mark.parametrize("folder", FOLDERS, ids=lambda path: path.name)
@pytest.mark.parametrize("stage", ["before", "after"])
def test_text_and_protobuf_of_one_compile_are_the_same(folder, stage):
    entry = next(e for e in open_entries(str(folder)).entries if e.stage == stage)
    assert entry.form == "proto"
    made, text = entry.load(), read_module(entry.text_beside)
    verify(made)
    assert [r.digest for r in level_digests(made)] == [r.digest for r in level_digests(text)]
    assert made.header == text.header
    assert not made.unstated
    difference = diff_modules(made, text)
    assert difference.same
    assert not difference.noise.metadata
    assert not difference.noise.renamed


@pytest.mark.parametrize("name", ["torch_mlp", "torch_transformer", "torch_embedding"])
def test_before_optimization_every_column_is_the_same(name):
    entry = next(e for e in open_entries(str(PROTOS / name)).entries if e.stage == "before")
    made, text = entry.load(), read_module(entry.text_beside)
    for column in ("names", "opcodes", "shapes", "operands"):
        assert list(getattr(made, column)) == list(getattr(text, column)), column
    for column in ("payloads", "callees", "controls", "entry", "name"):
        assert getattr(made, column) == getattr(text, column), column
    for ours, theirs in zip(made.attributes, text.attributes, strict=True):
        assert (ours.items, ours.callees, ours.controls) == (
            theirs.items,
            theirs.callees,
            theirs.controls,
        )


def test_lines_of_a_protobuf_are_not_made_up():
    read = read_proto(unpacked(LOOP, "hlo.pb"))
    assert {read.line_of(i) for i in range(len(read))} == {0}


# --- containers --------------------------------------------------------------------------------


@pytest.mark.parametrize("wrap", ["module", "proto", "snapshot", "unoptimized"])
def test_every_message_around_a_module_is_opened(tmp_path, wrap):
    whole = unpacked(LOOP, "hlo.pb")
    inner = whole[4:] if whole[2] & 0x80 else whole[3:]
    assert field(1, inner) == whole
    data = {
        "module": inner,
        "proto": whole + field(3, b"\x0a\x00"),
        "snapshot": field(1, whole) + field(2, b"\x0a\x02\x10\x0b") + field(4, b"cpu"),
        "unoptimized": whole + field(2, b"") + b"\x18\x01",
    }[wrap]
    path = tmp_path / "graph.pb"
    path.write_bytes(data)
    (entry,) = open_entries(str(path)).entries
    assert (entry.form, entry.module) == ("proto", "jit__lambda")
    assert canonical(load(str(path))) == canonical(read_proto(whole))
    assert load(f"{path}:1").name == "jit__lambda"
    with pytest.raises(SpecError, match="holds 1 modules, there is no 3"):
        load(f"{path}:3")


@pytest.mark.parametrize("compress", [gzip.compress, zstandard.ZstdCompressor().compress])
def test_compressed_protobufs_are_told_by_their_bytes(tmp_path, compress):
    path = tmp_path / "graph"
    path.write_bytes(compress(unpacked(LOOP, "hlo.pb")))
    assert load(str(path)).name == "jit__lambda"


def test_a_protobuf_on_standard_input(monkeypatch):
    class Stream:
        buffer = io.BytesIO(unpacked(LOOP, "hlo.pb"))

    monkeypatch.setattr("sys.stdin", Stream)
    content.standard_input.cache_clear()
    assert load("-").name == "jit__lambda"
    assert open_entries("-").entries[0].form == "proto"
    content.standard_input.cache_clear()


def test_a_compressed_protobuf_that_is_cut_off_says_so(tmp_path):
    path = tmp_path / "cut.pb.gz"
    path.write_bytes((next(LOOP.glob("*before*.pb.gz"))).read_bytes()[:-300])
    assert "damaged or cut off" in str(open_entries(str(path)).dropped[0])
    with pytest.raises(BytesError, match="cut off"):
        load(str(path))


def test_other_binary_files_are_refused(tmp_path):
    path = tmp_path / "memory.pb"
    path.write_bytes(b"\x0a\x0e\x08\x01\x12\x0a\x08\x00\x10\x20")
    with pytest.raises(SpecError, match=r"neither text nor an HLO protobuf \(HloProto"):
        load(str(path))


def test_a_dump_folder_has_one_entry_for_text_and_protobuf(dump):
    listing = open_entries(str(dump))
    assert [(e.form, e.ordinal, e.stage) for e in listing.entries] == [
        ("proto", 18, "before"),
        ("proto", 18, "after"),
    ]
    made = load(f"{dump}:18")
    assert made.header_fields["num_partitions"] == "4"
    assert not made.unstated
    assert find_entry(f"{dump}:jit_step:after").stage == "after"


def test_a_protobuf_alone_does_not_know_the_configuration(dump):
    (text,) = dump.glob("*before_optimizations.txt")
    whole = load(f"{dump}:18")
    text.rename(dump.parent / "alone.txt")
    alone = load(f"{dump}:18")
    assert "num_partitions" in alone.unstated
    assert "num_partitions" not in alone.header_fields
    for one, other in ((alone, whole), (whole, alone), (alone, load(f"{dump.parent}/alone.txt"))):
        assert diff_modules(one, other).same


def test_a_protobuf_that_was_being_written_leaves_the_text(dump):
    (path,) = dump.glob("*before_optimizations.hlo.pb")
    path.write_bytes(path.read_bytes()[:-100])
    assert load(f"{dump}:18").header_fields["num_partitions"] == "4"
    next(dump.glob("*before_optimizations.txt")).unlink()
    with pytest.raises(BytesError, match="cut off"):
        load(f"{dump}:18")


def test_text_of_another_module_beside_it_is_not_believed(dump):
    (text,) = dump.glob("*before_optimizations.txt")
    text.write_text(text.read_text().replace("HloModule jit_step", "HloModule other", 1))
    assert "num_partitions" in load(f"{dump}:18").unstated


# --- run folders -------------------------------------------------------------------------------


@pytest.fixture
def run_folder(tmp_path):
    """A committed run whose graphs lie there as protobufs, too."""
    source = PROTOS.parent / "runs" / "fixed"
    folder = tmp_path / "run"
    shutil.copytree(source, folder)
    return folder


def store_proto(folder, digest: str, proto: bytes) -> None:
    packed = zstandard.ZstdCompressor().compress(proto)
    (folder / "graphs" / (digest + PROTO_SUFFIX)).write_bytes(packed)


def test_run_folders_open_protobufs_instead_of_text(run_folder):
    digest = read_run(run_folder).digests()[0]
    made = unpacked(LOOP, "hlo.pb")
    store_proto(run_folder, digest, made)
    (run_folder / "graphs" / (digest + GRAPH_SUFFIX)).unlink()
    run = read_run(run_folder)
    assert digest in run.digests()
    assert run.graph(digest).text is None
    assert read_stored(*run.graph(digest), "g").name == "jit__lambda"
    with pytest.raises(RunError, match="stored as a protobuf only"):
        run.graph_text(digest)
    assert load(f"{run_folder}:{digest[:8]}").name == "jit__lambda"


def test_run_folders_with_both_have_one_entry_with_the_texts_configuration(run_folder):
    digest = read_run(run_folder).digests()[0]
    text, proto = (
        unpacked(PROTOS / "jax_sharded", "txt"),
        unpacked(PROTOS / "jax_sharded", "hlo.pb"),
    )
    store_proto(run_folder, digest, proto)
    packed = zstandard.ZstdCompressor().compress(text)
    (run_folder / "graphs" / (digest + GRAPH_SUFFIX)).write_bytes(packed)
    listing = open_entries(str(run_folder))
    assert len(listing.entries) == len(read_run(run_folder).digests())
    made = load(f"{run_folder}:{digest[:8]}")
    assert made.header_fields["num_partitions"] == "4"
    assert read_stored(*read_run(run_folder).graph(digest), "g").header == made.header


def test_a_damaged_protobuf_of_a_run_is_named(run_folder):
    digest = read_run(run_folder).digests()[0]
    (run_folder / "graphs" / (digest + PROTO_SUFFIX)).write_bytes(b"no zstandard")
    with pytest.raises(RunError, match="damaged graph"):
        read_run(run_folder).graph(digest)


# --- large constants ---------------------------------------------------------------------------


def test_constants_that_only_the_text_leaves_out_are_not_compared():
    text = unpacked(PROTOS / "jax_constants", "txt").decode()
    proto = unpacked(PROTOS / "jax_constants", "hlo.pb")
    start = text.index("constant({ { { 0,")
    short = text[:start] + "constant({...})" + text[text.index("})", start) + 2 :]
    made, full, elided = read_proto(proto), read_module(text), read_module(short)
    assert "{...}" in elided.payloads.values()
    assert diff_modules(made, full).same
    for one, other in ((made, elided), (elided, made), (full, elided)):
        difference = diff_modules(one, other)
        assert difference.same
        assert "{...}" in difference.a.payloads.values()


def test_a_constant_that_differs_is_found_where_both_have_it():
    proto = unpacked(PROTOS / "jax_constants", "hlo.pb")
    other = proto.replace(struct.pack("<f", 19 / 7), struct.pack("<f", 19.5 / 7))
    assert other != proto
    assert not diff_modules(read_proto(proto), read_proto(other)).same


# --- commands ----------------------------------------------------------------------------------


def test_commands_take_protobufs(dump, tmp_path):
    path = tmp_path / "alone.hlo.pb"
    shutil.copy(next(dump.glob("*before_optimizations.hlo.pb")), path)
    (text,) = dump.glob("*before_optimizations.txt")
    result = CliRunner().invoke(cli, ["diff", str(path), str(text)])
    assert result.exit_code == 0, result.output
    assert "Same computation: the modules differ in nothing" in result.output
    output = " ".join(result.output.split())
    assert "Not compared: replica_count, num_partitions and other configuration" in output
    canon = [CliRunner().invoke(cli, ["canon", str(p)]).output for p in (path, text)]
    assert canon[0] == canon[1]
    listed = CliRunner().invoke(cli, ["list", str(dump)]).output
    assert "proto\tjit_step" in listed


def test_bad_bytes_end_with_code_2_and_no_traceback(tmp_path):
    path = tmp_path / "cut.hlo.pb"
    path.write_bytes(unpacked(LOOP, "hlo.pb")[:-7])
    command = [sys.executable, "-c", "from xlagraph.cli import main; main()", "canon", str(path)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert not done.stdout
    (line,) = done.stderr.splitlines()
    assert "cut.hlo.pb: byte 0: cut off: field 1 reaches to byte" in line


def test_a_module_made_by_hand_is_read(tmp_path):
    path = tmp_path / "made.pb"
    path.write_bytes(module(row(1, "parameter"), row(2, "negate", (1,))).SerializeToString())
    assert list(load(str(path)).opcodes) == ["parameter", "negate"]
    assert message("HloModuleProto").SerializeToString() == b""
