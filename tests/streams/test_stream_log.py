"""Logs that are not what they should be: each says where, and none ends in a traceback."""

from __future__ import annotations

import gzip
import json
import random
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import pytest
import zstandard
from hypothesis import given, settings
from hypothesis import strategies as st
from streams.logs import FIXTURES, log_from_text, log_of, real_records

from xlagraph.errors import InputError, SpecError, XlagraphError
from xlagraph.streams.analyze import analyze
from xlagraph.streams.drift import drift_of
from xlagraph.streams.format import LARGEST
from xlagraph.streams.log import LONGEST_LINE, Log

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

META = '{"k": "meta", "v": 1}\n'
OP = '{"k": "op", "i": 1, "t": 1, "s": 0, "op": "f", "r": [[0, 512, 64]], "w": []}\n'


def refused(text: str | bytes) -> InputError:
    with pytest.raises(InputError) as caught:
        analyze(log_from_text(text))
    return caught.value


def place(error: InputError) -> tuple[int, int]:
    return error.location.line, error.location.column


@pytest.mark.parametrize(
    ("text", "where", "message"),
    [
        ("", (1, 1), 'want a stream log, which begins with {"k":"meta","v":1}'),
        ("HloModule m\n", (1, 1), "not JSON: expecting value"),
        (OP, (1, 1), 'want a stream log, which begins with {"k":"meta","v":1}'),
        ("[1]\n", (1, 1), 'want a stream log, which begins with {"k":"meta","v":1}'),
        ('{"k": "meta"}\n', (1, 1), 'want a field "v" (a whole number) in this "meta" record'),
        ('{"k": "meta", "v": 2}\n', (1, 20), "want record format 1; this log has version 2"),
        (META + "{oops\n" + OP, (2, 2), "not JSON: expecting property name enclosed in double "),
        (META + "[]\n", (2, 1), 'want a JSON object such as {"k":"op", ...}'),
        (META + "{}\n", (2, 1), 'want the kind of record, such as "k":"op"'),
        (META + '{"k": 7}\n', (2, 7), 'want the kind of record, such as "k":"op"'),
        (META + OP.replace('"t": 1, ', ""), (2, 1), 'want a field "t" (a whole number) in this'),
        (META + OP.replace('"s": 0', '"s": "0"'), (2, 34), 'want a whole number for "s" in this'),
        (META + OP.replace("64", '"64"'), (2, 53), "want a list of ranges, each range [device, "),
        (META + OP.replace("64", "-64"), (2, 53), "want a list of ranges, each range [device, "),
        (META + OP.replace("[0, 512, 64]", "512"), (2, 53), "want a list of ranges, each range"),
        (META + OP.rstrip() + " " + OP, (2, 77), "want one JSON object a line"),
        (META + "\n\n" + OP.replace('"r"', '"R"'), (4, 1), 'want a field "r"'),
        (META + "[" * 100_000 + "\n" + OP, (2, 1), "not JSON: nested too deeply"),
    ],
)
def test_an_error_has_its_place(text: str, where: tuple[int, int], message: str) -> None:
    error = refused(text)
    assert error.message.startswith(message), error.message
    assert place(error) == where
    assert error.exit_code == 2
    assert str(error).startswith(f"test.jsonl:{where[0]}:{where[1]}: ")


def test_a_line_that_is_too_long_is_refused() -> None:
    error = refused((META + '{"k": "' + "x" * LONGEST_LINE + "\n").encode() + OP.encode())
    assert "a line of over" in error.message
    assert error.location.line == 2


def test_a_half_written_last_line_is_counted() -> None:
    analysis = analyze(log_from_text(META + OP + OP[:40]))
    assert analysis.coverage.operators == 1
    assert not analysis.coverage.whole


def test_a_whole_last_line_needs_no_line_end() -> None:
    analysis = analyze(log_from_text(META + OP.rstrip()))
    assert analysis.coverage.operators == 1
    assert analysis.coverage.whole


def test_a_half_written_line_in_the_middle_is_refused() -> None:
    assert place(refused(META + OP[:40] + "\n" + OP))[0] == 2


def test_indented_and_blank_lines_are_read() -> None:
    analysis = analyze(log_from_text("\ufeff" + META + "  " + OP + "\r\n\n\t" + OP))
    assert analysis.coverage.operators == 2


def test_unknown_kinds_and_fields_are_passed_over_and_counted() -> None:
    more = '{"k": "later", "x": [1.5]}\n'
    analysis = analyze(log_from_text(META + OP.replace('"i"', '"new": {"a": 1}, "i"') + more * 2))
    assert ("records of unknown kinds", 2) in analysis.coverage.unseen


@pytest.mark.parametrize("packed", [gzip.compress, zstandard.ZstdCompressor().compress])
def test_compressed_logs_are_read(packed: Any, tmp_path: Path) -> None:
    file = tmp_path / "log"
    file.write_bytes(packed((META + OP).encode()))
    assert analyze(Log.open(str(file))).coverage.operators == 1


def test_a_compressed_log_that_is_cut_off_is_read_so_far(tmp_path: Path) -> None:
    file = tmp_path / "log.gz"
    lines = META + "".join(OP.replace('"i": 1', f'"i": {k}') for k in range(5000))
    packed = gzip.compress(lines.encode())
    file.write_bytes(packed[: len(packed) // 2])
    coverage = analyze(Log.open(str(file))).coverage
    assert 0 < coverage.operators < 5000
    assert not coverage.whole


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(SpecError, match=r"none\.jsonl: no such file or folder"):
        Log.open(str(tmp_path / "none.jsonl"))


@pytest.mark.parametrize(("field", "many"), [("s", 5000), ("t", 5000)])
def test_more_streams_or_threads_than_a_process_has_are_refused(field: str, many: int) -> None:
    record = {"k": "sync_st", "t": 1, "s": 0}
    with pytest.raises(InputError, match="over 4096"):
        analyze(log_of({**record, field: k} for k in range(1, many)))


def said(run: Callable[[Log], object], log: Log) -> None:
    """Runs over a log, which may be refused, with a place."""
    try:
        run(log)
    except InputError as error:
        text = str(error)
    else:
        return
    assert "test.jsonl:" in text


VALUES = st.one_of(
    st.none(), st.booleans(), st.integers(-2, 3), st.just(LARGEST + 1), st.text(max_size=3),
    st.floats(), st.lists(st.integers(-1, 2), max_size=4), st.just([[0, 1, 2]]), st.just({}),
    st.just([["nostorage"]]), st.just([[0, 139660724535296, 7, 2, 3, 2]]),
)  # fmt: skip


@settings(max_examples=150, deadline=None)
@given(st.sampled_from(["001_bug", "002_G", "good_nccl_async", "000min_fix"]), st.data())
def test_damaged_records_are_refused_or_read(name: str, data: st.DataObject) -> None:
    """Any field of any record replaced, taken out, or records left out: never a traceback."""
    records = real_records(name)
    for _ in range(data.draw(st.integers(1, 4))):
        record = records[data.draw(st.integers(0, len(records) - 1))]
        field = data.draw(st.sampled_from(sorted(record) or ["k"]))
        if data.draw(st.booleans()):
            record[field] = data.draw(VALUES)
        else:
            record.pop(field, None)
    log = log_of(records)
    for run in (analyze, drift_of):
        said(run, log)


@settings(max_examples=100, deadline=None)
@given(st.binary(max_size=60), st.integers(0, 4000), st.booleans())
def test_damaged_bytes_are_refused_or_read(noise: bytes, at: int, replace: bool) -> None:
    text = "".join(json.dumps(r) + "\n" for r in real_records("001_bug"))
    whole = (META + text).encode()
    damaged = whole[:at] + noise + whole[at + (len(noise) if replace else 0) :]
    with suppress(XlagraphError):
        said(analyze, log_from_text(damaged))


def test_records_in_any_order_are_read() -> None:
    records = real_records("001_fix")
    for seed in range(20):
        random.Random(seed).shuffle(records)
        analyze(log_of(records))


def test_fixtures_hold_no_path_of_a_machine() -> None:
    for file in FIXTURES.glob("*.zst"):
        text = zstandard.ZstdDecompressor().decompress(file.read_bytes(), 1 << 26).decode()
        assert "/" not in "".join(
            record.get("at") or "" for record in map(json.loads, text.splitlines())
        ), file
