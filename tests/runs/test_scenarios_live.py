"""Some scenario programs run for real, under capture, in subprocesses."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.torch_xla
@pytest.mark.skipif(importlib.util.find_spec("torch_xla") is None, reason="needs the capture extra")
@pytest.mark.parametrize("name", ["log_every_k", "early_item", "two_ranks"])
def test_a_real_run_is_explained(name, tmp_path):
    done = subprocess.run(
        [sys.executable, "benchmarks/scenarios.py", "--keep", str(tmp_path), name],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "1 of 1 right" in done.stdout
