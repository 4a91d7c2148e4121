"""Modules of two JAX processes that ran together: what is predicted, and how that ended."""

from __future__ import annotations

import json

import pytest
from repository import ROOT

from xlagraph.collectives.program import program_of
from xlagraph.hlo import load
from xlagraph.ranks.match import match
from xlagraph.ranks.model import Executed, Outcome, Plan, Reason

MODULES = ROOT / "fixtures" / "ranks_jax"
ENDS = json.loads((MODULES / "ends.json").read_text())
SAID = {
    "same": (Outcome.MATCH, None),
    "order": (Outcome.MISMATCH, Reason.SIZE),
    "extra": (Outcome.HANG, Reason.ENDED),
}


def of(mode, stage):
    files = [str(MODULES / f"{mode}.{rank}.{stage}.hlo") for rank in range(2)]
    programs = {file: program_of(load(file)).among(2) for file in files}
    plans = [Plan(k, (Executed(0, file),), ended=True) for k, file in enumerate(files)]
    return programs, match(plans, programs, 2)


@pytest.mark.parametrize("mode", ENDS)
def test_compiled_modules(mode):
    programs, found = of(mode, "after")
    assert all(program.ordered for program in programs.values())
    assert {program.grid.partitions for program in programs.values()} == {2}
    assert (found.outcome, found.reason) == SAID[mode]
    assert found.certain
    assert (found.outcome is Outcome.MATCH) == (ENDS[mode] == "finished")


@pytest.mark.parametrize("mode", ENDS)
def test_modules_as_lowered(mode):
    """Sums over a manual axis stand in these; what the partitioner adds outside is not known."""
    _, found = of(mode, "before")
    assert (found.outcome, found.reason) == SAID[mode]


def test_how_they_ended():
    assert ENDS == {"same": "finished", "order": "failed", "extra": "hung"}
