"""The picture of a log: columns, arrows, what is done by when, what filled a bucket."""

from __future__ import annotations

from itertools import accumulate
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from streams.logs import Writer, log_of, real, real_records
from streams.oracle import Oracle
from streams.programs import program

from xlagraph.report.stream_lanes import Kept
from xlagraph.streams.analyze import analyze
from xlagraph.streams.lanes import Arrow, Lanes, lanes_of
from xlagraph.streams.model import Kind

ACTIONS = st.tuples(*[st.integers(0, 300)] * 4)
MAIN, SIDE, REDUCE = 1, 2, 3


def lanes(name: str) -> Lanes:
    """The picture of a real log."""
    log = real(name)
    return lanes_of(log, analyze(log).findings)


def test_every_operator_has_a_column_in_the_order_of_the_log() -> None:
    found = lanes("001_bug")
    records = list(real("001_bug").records())
    operators = [(line, record) for line, record in records if record["k"] == "op"]
    assert list(found.works.lines) == [line for line, _ in operators]
    names = [found.texts[number] for number in found.works.operators]
    assert names == [record["op"] for _, record in operators]
    reads = [sum(item[2] for item in record["r"]) for _, record in operators]
    assert list(found.works.read) == reads
    assert found.place(operators[3][0]) == 3
    assert found.place(operators[3][0] + 1) == 4


def test_what_an_operator_returns_counts_as_written() -> None:
    found = lanes("000min_bug")
    assert list(found.works.written) == [4 << 20] * 3


def test_waits_are_arrows_between_streams() -> None:
    writer = Writer()
    writer.op("first", s=0)
    writer.add("record", e=1, s=0)
    writer.op("second", s=0)
    writer.add("wait", e=1, s=7)
    writer.add("wait", e=1, s=0)  # of its own stream: no arrow
    writer.add("wait", e=99, s=7)
    writer.op("third", s=7)
    writer.add("sync_st", s=7)
    writer.add("sync_dev")
    found = lanes_of(log_of(writer.records), ())
    assert found.arrows == (Arrow(1, 1, 2, 2), Arrow(0, 2, 2, 2))
    assert [(one.at, one.stream) for one in found.host_waits] == [(3, 2), (3, 0)]


def test_a_collective_is_on_the_stream_that_it_runs_on() -> None:
    found = lanes("good_nccl_async")
    launched = [r["s"] for r in real_records("good_nccl_async") if r["k"] == "op"]
    collectives = [
        k for k, number in enumerate(found.works.operators) if "allreduce" in found.texts[number]
    ]
    assert collectives
    streams = analyze(real("good_nccl_async")).streams
    for column in collectives:
        runs_on = streams[found.works.streams[column] - 1]
        assert runs_on.raw != launched[column]
        assert any(arrow.target == runs_on.number for arrow in found.arrows)


def test_backward_passes_and_steps_have_places() -> None:
    assert lanes("001_bug").backwards == ((14, 24),)
    writer = Writer()
    for _ in range(3):
        writer.add("mark", name="step")
        writer.op("one")
        writer.op("two")
    assert lanes_of(log_of(writer.records), ()).steps == (0, 2, 4)


@settings(max_examples=150, deadline=None)
@given(st.lists(ACTIONS, min_size=10, max_size=40))
def test_what_is_done_by_an_access_is_what_brute_force_orders_before_it(
    numbers: list[tuple[int, int, int, int]],
) -> None:
    records = program(numbers)
    log = log_of(records)
    analysis = analyze(log)
    oracle, found = Oracle(records), lanes_of(log, analysis.findings)
    for later in {one.later.line for one in analysis.findings if one.later}:
        places = found.known[later]
        own = found.works.streams[found.place(later)]
        for column in range(found.place(later)):
            line, stream = found.works.lines[column], found.works.streams[column]
            is_before = oracle.ordered(f"work{line}", f"work{later}")
            assert (column < places[stream - 1]) == is_before, (line, later, stream, own)
    for one in analysis.findings:
        for access in one.earlier if one.later else ():
            assert found.place(access.line) >= found.known[one.later.line][access.stream - 1]


def bucket_program(writes: list[tuple[int, int, int]]) -> list[dict[str, Any]]:
    """Writes to a bucket of 64 bytes at 1000 from two streams, then a copy out of it."""
    writer = Writer()
    for start, size, stream in writes:
        end = min(start + size, 64)
        writer.op("aten.copy_.default", s=stream, w=[(1000 + start, end - start)])
    writer.add("mark", name="reduce_begin", s=REDUCE, r=[[0, 1000, 64]], bucket="b")
    writer.op("aten.copy_.default", s=REDUCE, r=[(1000, 64)])
    writer.add("mark", name="reduce_end", s=REDUCE)
    return writer.records


WRITES = st.lists(
    st.tuples(st.integers(0, 60), st.integers(1, 64), st.sampled_from([MAIN, SIDE])),
    min_size=1,
    max_size=12,
)


@settings(max_examples=200, deadline=None)
@given(WRITES)
def test_the_parts_of_a_bucket_are_what_wrote_each_byte_last(
    writes: list[tuple[int, int, int]],
) -> None:
    log = log_of(bucket_program(writes))
    findings = analyze(log).findings
    (finding,) = [one for one in findings if one.kind is Kind.BUCKET_RACE]
    found = lanes_of(log, findings).parts[finding.number]
    last = [0] * 64
    for line, (start, size, _) in enumerate(writes, 2):
        end = min(start + size, 64)
        last[start:end] = [line] * (end - start)
    painted = [part.line for part in found for _ in range(part.size)]
    assert painted == last
    assert [part.offset for part in found] == [0, *accumulate(p.size for p in found[:-1])]


def test_the_parts_are_those_of_the_allocation_that_is_read() -> None:
    writer = Writer()
    writer.op("aten.copy_.default", s=MAIN, w=[(1000, 32)])
    writer.add("alloc", p=1000, n=64, s=MAIN)
    writer.op("aten.copy_.default", s=MAIN, w=[(1032, 32)])
    writer.add("mark", name="reduce_begin", s=REDUCE, r=[[0, 1000, 64]], bucket="b")
    writer.op("aten.copy_.default", s=REDUCE, r=[(1000, 64)])
    writer.add("mark", name="reduce_end", s=REDUCE)
    log = log_of(writer.records)
    findings = [one for one in analyze(log).findings if one.bucket]
    (parts,) = lanes_of(log, findings).parts.values()
    assert [(part.offset, part.size, part.line) for part in parts] == [(0, 32, 0), (32, 32, 4)]


@settings(max_examples=300, deadline=None)
@given(
    st.integers(1, 500).flatmap(
        lambda total: st.tuples(
            st.just(total),
            st.lists(st.integers(0, total - 1), max_size=20, unique=True).map(sorted),
            st.integers(1, 600),
        )
    )
)
def test_what_is_kept_is_around_what_is_named_and_no_more_than_fits(
    given: tuple[int, list[int], int],
) -> None:
    total, columns, most = given
    kept = Kept.around(columns, most, total)
    shown = list(kept.columns())
    assert kept.size == len(shown) <= max(most, 2)
    assert shown == sorted(set(shown))
    assert all(kept.holds(column) == (column in shown) for column in range(total))
    places = [kept.place(place) for place in range(total + 1)]
    assert places == [sum(column < place for column in shown) for place in range(total + 1)]
    gaps = kept.gaps(total)
    assert sum(count for _, count in gaps) + kept.size == total
    if most >= 2 * len(columns):
        assert all(kept.holds(column) or column == 0 for column in columns)


@pytest.mark.parametrize("name", ["good_graph", "002_G", "001c_bug"])
def test_the_log_is_followed_as_in_the_analysis(name: str) -> None:
    log = real(name)
    found = lanes_of(log, analyze(log).findings)
    assert len(found.works.lines) == analyze(log).coverage.operators
