"""Some scenario programs run for real, under capture, in subprocesses."""

from __future__ import annotations

import subprocess
import sys

import pytest
from repository import ROOT, script

from xlagraph.run.reader import read_run
from xlagraph.runs.explain import explain_run

pytestmark = pytest.mark.torch_xla

scenarios = script("benchmarks/scenarios.py")


@pytest.mark.parametrize("name", ["log_every_k", "two_ranks", "donated_buffer", "layer_order"])
def test_a_real_run_is_explained(name, run_program, tmp_path):
    truth = scenarios.read_truth(scenarios.PROGRAMS / f"{name}.py")
    for rank in range(truth.ranks):
        variables = scenarios.variables(truth, tmp_path / "run", rank, lines=True)
        run_program(truth.path, **variables)
    row = scenarios.judge(truth, explain_run(read_run(tmp_path / "run")))
    assert row.right, row


def test_the_benchmark_runs_and_judges(tmp_path):
    done = subprocess.run(
        [sys.executable, "benchmarks/scenarios.py", "--keep", str(tmp_path), "early_item"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "1 of 1 right" in done.stdout
