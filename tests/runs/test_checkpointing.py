"""Checkpointing that is switched on once is a phase; in some steps only it stays a problem."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest
from written_runs import write

PAIRS = Path(__file__).resolve().parents[2] / "fixtures" / "module_pairs"
KEPT, AGAIN = (
    gzip.decompress((PAIRS / f"block_computed_again.{side}.hlo.gz").read_bytes()).decode()
    for side in "ab"
)


def run_of(folder, order):
    return write(folder, [(20, AGAIN if one == "c" else KEPT) for one in order])


def test_checkpointing_from_a_step_on_is_told_and_no_alarm(tmp_path):
    run = run_of(tmp_path, "." * 6 + "c" * 12)
    assert not run.has_problem
    (group,) = [group for group in run.groups if group.meant]
    assert (group.meant, group.kind.id) == ("phase", "rematerialization")


@pytest.mark.parametrize(
    "order",
    ["." * 6 + "c" * 4, "." * 6 + "c" * 8 + "." * 6, "...c" * 4, ".c" * 8],
    ids=["hardly begun", "back again", "every fourth step", "in turn"],
)
def test_checkpointing_in_some_steps_only_is_a_problem(order, tmp_path):
    assert run_of(tmp_path, order).has_problem
