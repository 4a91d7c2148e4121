"""A run says which exception ended it."""

from __future__ import annotations

import importlib.util
import sys

import pytest

from xlagraph.capture.host import failure
from xlagraph.run.reader import read_run
from xlagraph.run.records import EXCEPTION

pytestmark = [
    pytest.mark.torch_xla,
    pytest.mark.skipif(
        importlib.util.find_spec("torch_xla") is None, reason="needs the capture extra"
    ),
]
STEP = """
import torch, torch_xla
def step():
    torch.ones(2).to("xla").add_(1)
    torch_xla.sync()
"""
IN_CHILD = (
    "import multiprocessing\n"
    + STEP
    + """
def child():
    step()
    raise ValueError("in the child")
if __name__ == "__main__":
    process = multiprocessing.get_context("spawn").Process(target=child)
    process.start()
    process.join()
"""
)
CASES = {
    "uncaught": (STEP + "step()\nraise KeyError('x')\n", ["KeyError"]),
    "orderly": (STEP + "step()\n", []),
    "exit": (STEP + "step()\nraise SystemExit(0)\n", []),
    "handled": (STEP + "try:\n    raise KeyError\nexcept KeyError:\n    step()\n", []),
    "child": (IN_CHILD, ["ValueError"]),
}
BLOCK = (
    STEP
    + """
import xlagraph
try:
    with xlagraph.capture("run"):
        step()
        {end}
except BaseException:
    pass
"""
)


def told(run):
    """The exceptions that a run tells of."""
    processes = read_run(run).processes
    return [note.detail for p in processes for note in p.notes if note.what == EXCEPTION]


@pytest.mark.parametrize("name", CASES)
def test_what_ends_a_program(name, run_program, tmp_path):
    code, wanted = CASES[name]
    program = tmp_path / "program.py"
    program.write_text(code)
    variables = {"XLAGRAPH": "1", "XLAGRAPH_DIR": str(tmp_path / "run")}
    run_program(program, check=False, whole_end=True, **variables)
    assert told(tmp_path / "run") == wanted


@pytest.mark.parametrize(
    ("end", "wanted"),
    [
        ("raise OSError", ["OSError"]),
        ("pass", []),
        ("raise KeyboardInterrupt", []),
        ("raise SystemExit(3)", ["SystemExit: 3"]),
    ],
)
def test_what_ends_a_block(end, wanted, run_program, tmp_path):
    run_program(BLOCK.format(end=end))
    assert told(tmp_path / "run") == wanted


def test_a_spawned_child_is_asked_as_its_interpreter_exits(monkeypatch):
    """From Python 3.13 on; before it, while the exception is handled."""
    monkeypatch.delattr(sys, "last_value", raising=False)
    monkeypatch.setattr(failure, "_printed", ["ValueError"])
    assert failure.uncaught() == "ValueError"
