"""What scripts/versions needs no torch for."""

import importlib.util
from importlib.machinery import SourceFileLoader
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[2] / "scripts" / "versions"
SHIM = "#!/bin/sh\necho 'pyenv: python3.12: command not found' >&2\nexit 127\n"
WORKS = "#!/bin/sh\nexit 0\n"


@pytest.fixture
def versions(monkeypatch):
    monkeypatch.setattr("sys.dont_write_bytecode", True)
    loader = SourceFileLoader("versions", str(SCRIPT))
    module = importlib.util.module_from_spec(importlib.util.spec_from_loader("versions", loader))
    loader.exec_module(module)
    return module


def _put(path, text):
    path.parent.mkdir(parents=True)
    path.write_text(text)
    path.chmod(0o700)


def test_a_shim_that_does_not_start_is_no_interpreter(versions, tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("PATH", str(tmp_path / "shims"))
    _put(tmp_path / "shims" / "python3.12", SHIM)
    assert versions._interpreter("3.12") is None
    assert versions._interpreter("3.13") is None
    own = tmp_path / ".pyenv" / "versions" / "3.12.1" / "bin" / "python"
    _put(own, WORKS)
    assert versions._interpreter("3.12") == str(own)


def test_a_result_that_is_written_keeps_those_of_others(versions, tmp_path, monkeypatch):
    results, page = tmp_path / "versions.json", tmp_path / "capture.md"
    results.write_text("{}")
    page.write_text(f"before\n{versions.BEGIN}old\n{versions.END}after\n")
    monkeypatch.setattr(versions, "RESULTS", results)
    monkeypatch.setattr(versions, "PAGE", page)

    def run(_torch, python, _options):
        if python == "3.11":  # another run writes its own while this one tests
            results.write_text('{"2.9": {"3.10": {"result": "9 passed", "date": "D"}}}')
        return {"result": {"3.11": "1 error", "3.12": "no wheel"}[python], "date": "E"}

    monkeypatch.setattr(versions, "_run_pair", run)
    monkeypatch.setattr("sys.argv", ["versions", "--torch", "2.9", "--python", "3.11,3.12"])
    assert versions.main() == 1
    text = page.read_text()
    assert text.startswith("before\n")
    assert text.endswith("after\n")
    assert "| 2.9 | 9 passed, D | 1 error, E | no wheel, E | not run |\n" in text
    assert "| 2.5 | not run | not run | not run | not run |\n" in text
