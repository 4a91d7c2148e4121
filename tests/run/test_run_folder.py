"""Run folders: round trips, damage, bounds, versions."""

import dataclasses
import json
import os
import typing

import pytest
from hypothesis import given
from hypothesis import strategies as st

from xlagraph.run.codec import LineDecoder, RecordError, SyncEncoder, again, encode
from xlagraph.run.reader import RunError, read_run
from xlagraph.run.records import (
    FORMAT_VERSION,
    BucketState,
    FlushRecord,
    Frame,
    GraphRecord,
    LiveTensor,
    NoteRecord,
    ParameterTensor,
    ProcessRecord,
    SyncRecord,
)
from xlagraph.run.stats import count_run
from xlagraph.run.writer import RunWriter
from xlagraph.tensors import AUTOGRAD, Holder, Role, Tensor

WEIGHT = Tensor("fc", "w", Role.PARAMETER)
PROCESS = ProcessRecord(FORMAT_VERSION, 0, 1, "host", 7, 1.5, ("train.py",), 1, (("torch", "2"),))
SITE = (Frame("train.py", 3, "main"),)


def sync(index, **changes):
    plain = SyncRecord(
        index=index,
        step=index,
        rank=0,
        time=2.0,
        seconds=0.25,
        kind="step",
        entry="sync",
        outcome="hit",
        compile_seconds=0.0,
        graphs=("d" * 32,),
        graph_is_inferred=True,
        fingerprint=(5,),
        call_site=SITE,
        live_tensors=(),
        buckets=(),
    )
    return dataclasses.replace(plain, **changes)


def anything(kind):
    """Values of a record type, by its annotations."""
    plain = {
        int: st.integers(0, 9),
        str: st.text(max_size=9),
        bool: st.booleans(),
        float: st.floats(0, 1e9),
    }
    if kind in plain:
        return plain[kind]
    if kind == Tensor | None:
        return st.none() | anything(Tensor)
    if kind is Role:
        return st.sampled_from(Role)
    if typing.get_origin(kind) is tuple:
        items = typing.get_args(kind)
        if items[-1] is Ellipsis:
            return st.lists(anything(items[0]), max_size=2).map(tuple)
        return st.tuples(*map(anything, items))
    hints = typing.get_type_hints(kind)
    names = [field.name for field in dataclasses.fields(kind)]
    return st.builds(kind, **{name: anything(hints[name]) for name in names})


KINDS = (ProcessRecord, SyncRecord, GraphRecord, FlushRecord, NoteRecord)


@given(st.sampled_from(KINDS).flatmap(anything))
def test_every_record_reads_back(record):
    assert LineDecoder().decode(encode(record)) == record


@given(st.lists(anything(SyncRecord), max_size=4))
def test_syncs_read_back_with_call_sites_by_number(records):
    encoder, decoder = SyncEncoder(), LineDecoder()
    lines = [line for record in records for line in encoder.encode(record).split("\n")]
    assert [one for one in map(decoder.decode, lines) if one is not None] == records


def test_plain_syncs_read_back():
    encoder, decoder = SyncEncoder(), LineDecoder()
    records = [sync(0), sync(1), sync(2, outcome="compile", compile_seconds=0.5, call_site=())]
    lines = []
    for record in records:
        lines += encoder.encode_plain(record, record.index, record.step).split("\n")
    assert len(lines) == 4  # one call site
    assert [one for one in map(decoder.decode, lines) if one is not None] == records


def test_repeats_read_back():
    encoder, decoder = SyncEncoder(), LineDecoder()
    first = sync(3, buckets=(BucketState("root", (WEIGHT,), ("f32[2]",), 8, 9, 1),))
    lines = encoder.encode(first).split("\n")
    lines.append((again(3) % (7, 6, 2_500_000_000, 1_000_000)).decode())
    found = [one for one in map(decoder.decode, lines) if one is not None]
    assert found == [first, dataclasses.replace(first, index=7, step=6, time=2.5, seconds=0.001)]
    with pytest.raises(RecordError, match="not a record"):
        decoder.decode((again(4) % (8, 7, 0, 0)).decode())


def test_older_records_name_tensors_in_words():
    decoder = LineDecoder()
    graph = decoder.decode(
        '{"record":"graph","outputs":["fc.w","","w (SGD momentum_buffer)"],'
        '"parameters":[{"index":3,"name":"waiting gradient of a.b: w shard"}]}'
    )
    assert graph.outputs == (
        Tensor("fc", "w"),
        None,
        Tensor("", "w", Role.STATE, "SGD", "momentum_buffer"),
    )
    waiting = Tensor("a.b", "w", Role.WAITING, shard=True)
    assert graph.parameters == (ParameterTensor(3, waiting),)
    held = "history[0] in module __main__ (list)"
    live = decoder.decode(
        '{"record":"sync","live_tensors":[{"output":1,"name":"fc.w.grad",'
        f'"holder":"{held}"}},'
        '{"holder":"held by C++ only: autograd, or the base of a view"}],'
        '"buckets":[{"tensors":["a: w shard","f32[4]"],"shapes":["f32[2]","f32[4]"]}]}'
    )
    assert [one.tensor for one in live.live_tensors] == [Tensor("fc", "w", Role.GRADIENT), None]
    assert [one.holders for one in live.live_tensors] == [(Holder("", held),), (AUTOGRAD,)]
    assert live.buckets[0].tensors == (Tensor("a", "w", Role.BUCKET, shard=True), None)


def test_a_holder_is_read_by_the_earlier_name_of_its_field():
    line = '{"record":"sync","live_tensors":[{"holders":[{"kind":"list","name":"history[0]"}]}]}'
    (live,) = LineDecoder().decode(line).live_tensors
    assert live.holders == (Holder("list", "history[0]"),)


def test_a_role_of_a_later_version_is_read_as_any_tensor():
    line = '{"record":"graph","outputs":[["fc","w","king"],null]}'
    assert LineDecoder().decode(line).outputs == (Tensor("fc", "w"), None)


def test_missing_and_unknown_fields_and_types():
    decoder = LineDecoder()
    assert decoder.decode('{"record":"note","what":"x","new":1}') == NoteRecord(0, "x", "")
    assert decoder.decode('{"record":"flush"}').before == BucketState("", (), (), 0, 0, 0)
    assert decoder.decode('{"record":"of a later version"}') is None


@pytest.mark.parametrize(
    "line",
    [
        "",
        "{",
        "[]",
        '{"what":"x"}',
        '{"record":"sync","index":"x"}',
        '{"record":"sync","call_site":9}',
    ],
)
def test_damaged_lines_are_refused(line):
    with pytest.raises(RecordError, match="not a record"):
        LineDecoder().decode(line)


def write_run(folder, *records, max_bytes=1 << 20, process=PROCESS):
    writer = RunWriter(folder, process, max_bytes)
    for record in records:
        writer.write(record)
    writer.close()
    return writer


def test_any_cut_leaves_what_was_finished(tmp_path):
    writer = write_run(tmp_path, *[sync(n) for n in range(4)])
    whole = writer.file.read_bytes()
    for length in range(whole.index(b"\n") + 1, len(whole)):
        writer.file.write_bytes(whole[:length])
        (process,) = read_run(tmp_path).processes
        finished = whole[:length].count(b'"index"')
        assert [one.index for one in process.syncs][: finished - 1] == list(range(finished))[:-1]
        assert process.unread_lines <= 1


def test_graphs_are_stored_once_and_read_back(tmp_path):
    writers = [
        RunWriter(tmp_path, dataclasses.replace(PROCESS, pid=pid), 1 << 20) for pid in (1, 2)
    ]
    digests = {writer.store_graph(b"HloModule a") for writer in writers}
    for writer in writers:
        writer.close()
    run = read_run(tmp_path)
    (digest,) = run.digests()
    assert digests == {digest}
    assert run.graph_text(digest) == "HloModule a"
    with pytest.raises(RunError, match="not in the run folder"):
        run.graph_text("0" * 32)
    (tmp_path / "graphs" / f"{digest}.hlo.zst").write_bytes(b"x")
    with pytest.raises(RunError, match="damaged graph"):
        run.graph_text(digest)


def test_same_pid_never_shares_a_file(tmp_path):
    for _ in range(3):
        write_run(tmp_path, sync(0))
    assert len(read_run(tmp_path).processes) == 3


def test_bound_keeps_compiles_longest(tmp_path):
    writer = RunWriter(tmp_path, PROCESS, 2000)
    for number in range(100):
        hit = sync(number)
        writer.write_plain(hit, number, number)
    writer.write(
        sync(
            100,
            outcome="compile",
            compile_seconds=1.0,
            live_tensors=(LiveTensor(0, 1, "f32[]", 0, None, (), ()),),
        )
    )
    writer.store_graph(os.urandom(5000))
    writer.close()
    (process,) = read_run(tmp_path).processes
    assert [note.what for note in process.notes] == ["limit"]
    assert process.syncs[-1].outcome == "compile"
    assert writer.dropped.syncs == 100 - len(process.syncs) + 1
    assert writer.dropped.graphs == 1


def test_a_protobuf_is_stored_beside_its_text_within_the_bound(tmp_path):
    writer = RunWriter(tmp_path, PROCESS, 9000)
    small, large = b"HloModule small", b"HloModule large"
    protos = [os.urandom(2000), os.urandom(8000)]
    digests = [
        writer.store_graph(small),
        writer.store_graph(small, protos[0]),  # by a process that sees the text there already
        writer.store_graph(large, protos[1]),
    ]
    writer.close()
    run = read_run(tmp_path)
    found = [run.graph(digest) for digest in digests[1:]]
    assert [(one.text, one.proto) for one in found] == [
        (small.decode(), protos[0]),
        (large.decode(), None),
    ]
    stored = sum(path.stat().st_size for path in tmp_path.rglob("*") if path.is_file())
    assert stored == writer.written < 9000
    assert (writer.dropped.graphs, writer.dropped.stacks) == (0, 1)
    assert writer.dropped
    assert "Python stacks of 1 graphs" in str(writer.dropped)


def test_newer_format_is_refused(tmp_path):
    newer = dataclasses.replace(PROCESS, format=FORMAT_VERSION + 1)
    write_run(tmp_path, process=newer)
    with pytest.raises(RunError, match=r"format \d+ is newer"):
        read_run(tmp_path)


@pytest.mark.parametrize("content", [None, {}, {"records-0-h-1.jsonl": "{"}])
def test_not_a_run_folder(tmp_path, content):
    folder = tmp_path / "run"
    if content is not None:
        folder.mkdir()
        for name, text in content.items():
            (folder / name).write_text(text)
    with pytest.raises(RunError, match=r"run folder|no record file|no such file or folder"):
        read_run(folder)


def test_stats(tmp_path):
    graph = GraphRecord("a" * 32, 0, "m", 3, (), (ParameterTensor(0, WEIGHT),), (WEIGHT,))
    write_run(
        tmp_path,
        sync(0, outcome="compile", compile_seconds=1.5),
        graph,
        sync(1),
        NoteRecord(1, "late", "why"),
    )
    other = dataclasses.replace(PROCESS, rank=1, pid=8)
    write_run(tmp_path, sync(0, rank=1), process=other)
    counted = count_run(read_run(tmp_path))
    assert (counted.steps, counted.compiles, counted.graphs) == (2, 1, 1)
    assert counted.compile_seconds == 1.5
    assert [row.rank for row in counted.processes] == [0, 1]
    assert counted.notes == ("rank 0: late: why",)
    assert json.loads(json.dumps(counted.as_json()))["processes"][0]["host"] == "host"
