"""Profiles: what a Kineto trace, an ExecutionTrace and a snapshot say, and what they leave open."""

from __future__ import annotations

import gzip
import json
import os
import pickle
import tracemalloc
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from streams.logs import FIXTURES, real_records
from streams.test_streams_command import xlagraph

from xlagraph.errors import SpecError, XlagraphError
from xlagraph.streams.analyze import analyze
from xlagraph.streams.model import Kind, State, Verdict
from xlagraph.streams.traces.convert import log_of_profile
from xlagraph.streams.traces.files import read_snapshot

TRACES = FIXTURES / "traces"
BUG = (
    str(TRACES / "kineto_001_bug.json.gz"),
    str(TRACES / "et_001_bug.json.gz"),
    str(TRACES / "mem_001_bug.pickle"),
)

Json = dict[str, Any]


def records(kineto: str = BUG[0], execution: str = BUG[1], snapshot: str = BUG[2]) -> list[Json]:
    return [record for _, record in log_of_profile(kineto, execution, snapshot).records()]


def shapes(found: list[Json]) -> list[tuple[str, list[int], list[int]]]:
    """Operators by name, with the sizes of what they read and write, outputs among these."""
    rows: list[tuple[str, list[int], list[int]]] = []
    for one in found:
        if one["k"] == "op":
            name = one["op"].split(".")[1]
            rows.append((name, [r[2] for r in one["r"]], [w[2] for w in one["w"]]))
        elif one["k"] == "out":
            rows[-1][2].extend(w[2] for w in one["w"])
    return rows


def test_a_profile_has_the_accesses_that_a_recording_has() -> None:
    """The same program, recorded once and profiled once: the same bytes on as many streams."""
    factories = {"full": "fill_", "zeros": "fill_", "ones_like": "fill_"}  # a kernel is a fill_'s
    recorded = [
        (factories.get(name, name), reads, writes)
        for name, reads, writes in shapes(real_records("001_bug"))
    ]
    profiled = shapes(records())
    assert [row for row in recorded if row[1] or row[2]] == profiled
    assert {one["s"] for one in records() if one["k"] == "op"} == {0, 13, 17, 21}


def test_what_the_trace_leaves_open_is_unknown() -> None:
    analysis = analyze(log_of_profile(*BUG))
    assert analysis.verdict is Verdict.UNKNOWN
    assert analysis.exit_code == 3
    assert {one.state for one in analysis.findings} == {State.UNKNOWN}
    assert {one.doubt for one in analysis.findings} == {"edges"}
    assert Kind.BUCKET_RACE in {one.kind for one in analysis.findings}
    assert ("waits between streams that the trace leaves open", 12) in analysis.coverage.unseen


def resolved(tmp_path: Path, *, without: int = -1) -> str:
    """The trace as a profiler would write it that resolves waits: pairs as in the recording.

    `without` leaves one wait open.
    """
    trace = json.loads(gzip.decompress(Path(BUG[0]).read_bytes()))
    events = sorted(
        (e for e in trace["traceEvents"] if e.get("cat") == "cuda_runtime"), key=lambda e: e["ts"]
    )
    made = [e for e in events if e["name"].startswith("cudaEventRecord")]
    waits = [e for e in events if e["name"] == "cudaStreamWaitEvent"]
    log = [r for r in real_records("001_bug") if r["k"] in ("record", "wait")]
    names = {0: 7}
    pairs: list[tuple[int, int]] = []
    latest: dict[int, tuple[int, int]] = {}
    count = 0
    for record in log:
        if record["k"] == "record":
            latest[record["e"]] = made[count]["args"]["correlation"], record["s"]
            count += 1
        else:
            pairs.append(latest[record["e"]])
            wait = waits[len(pairs) - 1]["args"]["correlation"]
            (sync,) = [
                e for e in trace["traceEvents"]
                if e.get("cat") == "cuda_sync" and e["args"]["correlation"] == wait
            ]  # fmt: skip
            names[record["s"]] = sync["args"]["stream"]
    # The last two are the allocator's own: memory was freed that other streams had used.
    assert (count + 2, len(pairs)) == (len(made), len(waits))
    for number, (wait, (correlation, stream)) in enumerate(zip(waits, pairs, strict=True)):
        for event in trace["traceEvents"]:
            if event.get("cat") != "cuda_sync" or number == without:
                continue
            if event["args"]["correlation"] == wait["args"]["correlation"]:
                event["args"]["wait_on_stream"] = names[stream]
                event["args"]["wait_on_cuda_event_record_corr_id"] = correlation
    file = tmp_path / "resolved.json"
    file.write_text(json.dumps(trace))
    return str(file)


def test_where_the_trace_resolves_its_waits_the_mistake_is_found(tmp_path: Path) -> None:
    analysis = analyze(log_of_profile(resolved(tmp_path), *BUG[1:]))
    assert analysis.verdict is Verdict.FOUND
    found = [one for one in analysis.findings if one.state is State.FOUND]
    assert [one.kind for one in found] == [Kind.BUCKET_RACE]
    assert found[0].earlier[0].data.offset == 262144
    assert found[0].proof is not None
    assert found[0].proof.proved


def test_one_wait_that_is_open_leaves_all_open(tmp_path: Path) -> None:
    analysis = analyze(log_of_profile(resolved(tmp_path, without=3), *BUG[1:]))
    assert analysis.verdict is Verdict.UNKNOWN
    assert State.FOUND not in {one.state for one in analysis.findings}


def test_a_profile_without_a_snapshot_says_what_is_missing() -> None:
    log = log_of_profile(str(TRACES / "kineto_002_C.json.gz"), str(TRACES / "et_002_C.json.gz"), "")
    analysis = analyze(log)
    assert analysis.verdict is Verdict.UNKNOWN
    (finding,) = analysis.findings
    assert finding.earlier[0].operator == "aten.fill_"
    assert finding.later is not None
    assert finding.later.node == "MulBackward0"
    assert finding.later.forward_site == "seeds.py:112 s002"
    assert (
        "streams and sizes of allocations (--memory gives them)",
        -1,
    ) in analysis.coverage.unseen


def test_the_command_takes_a_profile() -> None:
    kineto, execution, memory = (os.path.relpath(path, FIXTURES.parents[1]) for path in BUG)
    profile = (kineto, "--execution-trace", execution, "--memory", memory)
    done = xlagraph("streams", *profile, COLUMNS="200")
    assert done.returncode == 3
    assert done.stdout.startswith("Order unknown:")
    assert "aten.copy_ on stream" in done.stdout
    alone = xlagraph("streams", kineto)
    assert alone.returncode == 2
    assert "give the ExecutionTrace" in alone.stderr
    assert xlagraph("streams", kineto, "--memory", memory).returncode == 2
    swapped = xlagraph("streams", execution, "--execution-trace", kineto)
    assert swapped.returncode == 2
    assert "not a Kineto trace" in swapped.stderr


class Evil:
    """Runs a command where it is unpickled."""

    def __init__(self, file: Path):
        self.file = file

    def __reduce__(self) -> Any:
        return os.system, (f"touch {self.file}",)


@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
def test_a_pickle_with_code_is_refused_and_runs_nothing(tmp_path: Path, protocol: int) -> None:
    file, mark = tmp_path / "snapshot.pickle", tmp_path / "ran"
    payload = {"device_traces": [], "segments": [Evil(mark)]}
    file.write_bytes(pickle.dumps(payload, protocol))
    with pytest.raises(SpecError, match="not a memory snapshot: it asks for"):
        read_snapshot(str(file))
    assert not mark.exists()


@pytest.mark.parametrize(
    "data",
    [
        b"", b"\x80\x04N.", b"\x80\x04}.", b"junk", b"\x80\x04P1\n.", b"cos\nsystem\n.",
        b"\x80\x05\x97.", b"\x80\x04\x8c\x02os\x8c\x06system\x93.", b"\x82\x01.",
        b"\x80\x04B\xff\xff\xff\x7f", b"\x80\x04}r\xff\xff\xff\x0f.", b"}p99999999\n.",
    ],
)  # fmt: skip
def test_other_pickles_are_refused(data: bytes, tmp_path: Path) -> None:
    file = tmp_path / "snapshot.pickle"
    file.write_bytes(data)
    with pytest.raises(SpecError, match="not a memory snapshot"):
        read_snapshot(str(file))


def test_a_place_beyond_the_pickle_costs_no_memory(tmp_path: Path) -> None:
    """The unpickler would make room for every place below it: 3 GiB here."""
    file = tmp_path / "snapshot.pickle"
    file.write_bytes(b"\x80\x04}r" + (200_000_000).to_bytes(4, "little") + b".")
    tracemalloc.start()
    try:
        with pytest.raises(SpecError, match="a value at place 200,000,000 of its memory"):
            read_snapshot(str(file))
        assert tracemalloc.get_traced_memory()[1] < 1_000_000
    finally:
        tracemalloc.stop()


def test_a_snapshot_reads_as_pickle_reads_it() -> None:
    assert read_snapshot(BUG[2]) == pickle.loads(Path(BUG[2]).read_bytes())


@settings(max_examples=60, deadline=None)
@given(st.binary(max_size=30), st.integers(0, 9800))
@example(b"i\\", 0)
def test_damaged_snapshots_are_refused_or_read(noise: bytes, at: int) -> None:
    data = bytearray(Path(BUG[2]).read_bytes())
    data[at : at + len(noise)] = noise
    damaged(bytes(data), 2)


@settings(max_examples=40, deadline=None)
@given(st.data())
def test_damaged_traces_are_refused_or_read(data: st.DataObject) -> None:
    """Any field of any event or node replaced or taken out."""
    which = data.draw(st.sampled_from([0, 1]))
    trace = json.loads(gzip.decompress(Path(BUG[which]).read_bytes()))
    listed = trace[("traceEvents", "nodes")[which]]
    for _ in range(data.draw(st.integers(1, 3))):
        one = listed[data.draw(st.integers(0, len(listed) - 1))]
        while True:
            key = data.draw(st.sampled_from(sorted(one)))
            if isinstance(one[key], dict) and one[key] and data.draw(st.booleans()):
                one = one[key]
                continue
            break
        value = data.draw(
            st.one_of(st.none(), st.text(max_size=2), st.integers(-2, 2), st.just([]))
        )
        one[key] = value
    damaged(json.dumps(trace).encode(), which)


def test_a_call_without_a_name_is_read() -> None:
    trace = json.loads(gzip.decompress(Path(BUG[0]).read_bytes()))
    for event in trace["traceEvents"]:
        if event.get("cat") == "cuda_runtime":
            event["name"] = None
    damaged(json.dumps(trace).encode(), 0)


@pytest.mark.parametrize("place", [2, 4])
def test_a_size_below_0_is_refused_with_the_file_that_has_it(place: int) -> None:
    trace = json.loads(gzip.decompress(Path(BUG[1]).read_bytes()))
    tensors = [one for node in trace["nodes"] for one in node["inputs"]["values"]]
    for one in tensors:
        if isinstance(one, list) and len(one) == 6:
            one[place] = -2
    damaged(json.dumps(trace).encode(), 1)


def damaged(data: bytes, which: int) -> None:
    """Converts the profile with one file in another state: a result, or an error with a name."""
    import tempfile

    with tempfile.NamedTemporaryFile() as file:
        file.write(data)
        file.flush()
        files = [*BUG[:which], file.name, *BUG[which + 1 :]]
        try:
            analyze(log_of_profile(*files))
        except XlagraphError as error:
            text = str(error)
        else:
            return
        assert file.name in text
