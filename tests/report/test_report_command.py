"""``xlagraph report``: what it writes, and what it leaves behind when it cannot."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from real_modules import RUNS

from xlagraph.cli.report import command
from xlagraph.errors import XlagraphError
from xlagraph.output import WriteError, write_whole

CARRY = str(RUNS / "carry")
LOGS = RUNS.parent / "streams"
TRACES = LOGS / "traces"
BUCKET = str(LOGS / "001_bug.jsonl.zst")
TRACE = str(TRACES / "kineto_001_bug.json.gz")


def _report(*arguments: str) -> Result:
    return CliRunner().invoke(command, arguments)


def test_a_run(tmp_path: Path) -> None:
    output = tmp_path / "report.html"
    result = _report(CARRY, "-o", str(output))
    assert result.exit_code == 0, result.output
    assert "beyond warm-up" in result.output
    assert output.read_text().startswith("<!doctype html>")


def test_a_pair_knows_tensor_names(tmp_path: Path) -> None:
    output = tmp_path / "report.html"
    assert _report(f"{CARRY}:E", f"{CARRY}:G", "-o", str(output)).exit_code == 0
    assert "carry:E → carry:G" in output.read_text()


def test_what_was_left_out_is_said(tmp_path: Path) -> None:
    result = _report(CARRY, "-o", str(tmp_path / "r.html"), "--max-mb", "0.5")
    assert result.exit_code == 0
    assert "left out" not in result.output


@pytest.mark.parametrize(
    "arguments", [("nowhere",), (f"{CARRY}:E", "nowhere"), (f"{CARRY}:E", f"{CARRY}:Z")]
)
def test_bad_input_writes_nothing(tmp_path: Path, arguments: tuple[str, ...]) -> None:
    result = _report(*arguments, "-o", str(tmp_path / "r.html"))
    assert isinstance(result.exception, XlagraphError)
    assert not list(tmp_path.iterdir())


def test_a_stream_log(tmp_path: Path) -> None:
    output = tmp_path / "streams.html"
    result = _report(BUCKET, "-o", str(output))
    assert result.exit_code == 0, result.output
    assert result.output.startswith("Found: bucket ipg[0] is reduced on stream 4 before")
    assert "Order of streams in 001_bug.jsonl.zst" in output.read_text()


def test_a_profile(tmp_path: Path) -> None:
    output = tmp_path / "streams.html"
    rest = ["--execution-trace", str(TRACES / "et_001_bug.json.gz")]
    rest += ["--memory", str(TRACES / "mem_001_bug.pickle"), "-o", str(output)]
    result = _report(TRACE, *rest)
    assert result.exit_code == 0, result.output
    assert result.output.startswith("Order unknown")
    assert "hero unsure" in output.read_text()


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ((TRACE,), "give the ExecutionTrace"),
        ((BUCKET, "--memory", str(TRACES / "mem_001_bug.pickle")), "goes with a trace"),
        ((TRACE, "--execution-trace", "nowhere.json"), "nowhere.json"),
    ],
)
def test_a_profile_that_is_not_enough_writes_nothing(
    tmp_path: Path, arguments: tuple[str, ...], said: str
) -> None:
    result = _report(*arguments, "-o", str(tmp_path / "r.html"))
    assert isinstance(result.exception, XlagraphError)
    assert said in str(result.exception)
    assert not list(tmp_path.iterdir())


def test_a_damaged_log_is_refused_with_its_place(tmp_path: Path) -> None:
    log = tmp_path / "log.jsonl"
    log.write_text('{"k": "meta", "v": 1}\n{"k": "op", "t": 1, "s": "zero"}\n{"k": "free"}\n')
    result = _report(str(log), "-o", str(tmp_path / "r.html"))
    assert isinstance(result.exception, XlagraphError)
    assert "log.jsonl:2:" in str(result.exception)
    assert [file.name for file in tmp_path.iterdir()] == ["log.jsonl"]


@pytest.mark.parametrize("option", ["--execution-trace", "--memory"])
def test_files_of_a_profile_go_with_one_trace(option: str) -> None:
    result = _report("a", "b", option, "c")
    assert result.exit_code == 2
    assert "go with one trace" in result.output


def test_three_inputs_are_a_usage_error() -> None:
    assert _report("a", "b", "c").exit_code == 2


def test_a_failed_write_leaves_the_old_file(tmp_path: Path) -> None:
    file = tmp_path / "r.html"
    write_whole(file, "old")
    with pytest.raises(UnicodeEncodeError):
        write_whole(file, "\ud800")
    assert file.read_text() == "old"
    assert [entry.name for entry in tmp_path.iterdir()] == ["r.html"]


def test_a_missing_folder_is_said(tmp_path: Path) -> None:
    with pytest.raises(WriteError, match="cannot be written: No such file"):
        write_whole(tmp_path / "missing" / "r.html", "text")
