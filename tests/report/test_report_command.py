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
