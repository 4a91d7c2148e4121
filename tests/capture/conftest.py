"""Run real programs in a subprocess, with and without capture."""

import os
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

PROGRAMS = Path(__file__).parent / "programs"
TIMEOUT_SECONDS = 300


@pytest.fixture
def programs():
    return PROGRAMS


@pytest.fixture
def run_program(tmp_path):
    """``run_program(file or code, **environment)``: the finished process."""

    def run(program, *arguments, check=True, python=(), **environment):
        env = {k: v for k, v in os.environ.items() if not k.startswith(("XLAGRAPH", "XLA_"))}
        env |= {"PJRT_DEVICE": "CPU", "PYTHONUNBUFFERED": "1"} | environment
        target = [str(program)] if isinstance(program, Path) else ["-c", program]
        done = subprocess.run(
            [sys.executable, *python, *target, *arguments],
            env=env,
            cwd=tmp_path,
            capture_output=True,
            text=True,
            timeout=TIMEOUT_SECONDS,
        )
        if check:
            assert done.returncode == 0, done.stderr[-3000:]
        return done

    return run


def pytest_collection_modifyitems(items):
    """Real programs need torch_xla: say so instead of failing."""
    if find_spec("torch_xla") is not None:
        return
    for item in items:
        if "torch_xla" in item.keywords:
            item.add_marker(pytest.mark.skip(reason="needs the capture extra"))
