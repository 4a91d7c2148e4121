"""Modules that torch_xla lowered for eight ranks, and copies of them edited for one rank."""

from __future__ import annotations

import re

import pytest
from repository import ROOT

from xlagraph.collectives.program import program_of
from xlagraph.hlo import read_module
from xlagraph.ranks.match import match
from xlagraph.ranks.model import Executed, Outcome, Plan, Reason
from xlagraph.run.reader import read_run

RANKS = 8
ALL = "{{0,1,2,3,4,5,6,7}}"


def lowered() -> str:
    """The step that all ranks but one ran when the capture began."""
    run = read_run(ROOT / "fixtures" / "ranks" / "order")
    first = next(sync for sync in run.processes[0].syncs if sync.graphs)
    return run.graph_text(first.graphs[0])


def reduces(text: str) -> list[str]:
    return [line for line in text.splitlines() if " all-reduce(" in line]


def said(odd: str, *, also: str = "") -> tuple[Outcome, Reason | None, bool]:
    """Rank 3 runs an edited step; `also` is what all run after it."""
    text = lowered()
    programs = {t: program_of(read_module(t)).among(RANKS) for t in {text, odd, also} if t}
    plans = []
    for rank in range(RANKS):
        ran = [odd if rank == 3 else text, *([also] if also else [])]
        executed = tuple(Executed(step, one) for step, one in enumerate(ran))
        plans.append(Plan(rank, executed, ended=True))
    found = match(plans, programs, RANKS)
    return found.outcome, found.reason, found.certain


def test_the_step_itself():
    program = program_of(read_module(lowered())).among(RANKS)
    assert [item.opcode for item in program.items] == ["all-reduce"] * 4
    assert program.ordered  # by the token that each takes from the one before
    assert program.grid.devices == RANKS
    assert said(lowered()) == (Outcome.MATCH, None, True)


def test_names_and_iota_lists_change_nothing():
    assert said(lowered().replace(ALL, "[1,8]<=[8]")) == (Outcome.MATCH, None, True)
    assert said(lowered().replace("all-reduce.", "sum_of.")) == (Outcome.MATCH, None, True)


@pytest.mark.parametrize("groups", ["{{0,1,2,3},{4,5,6,7}}", "{{7,6,5,4,3,2,1,0}}", "[4,2]<=[8]"])
def test_other_groups_on_one_rank(groups):
    line = reduces(lowered())[1]
    odd = lowered().replace(line, line.replace(ALL, groups))
    outcome, reason, certain = said(odd)
    assert (outcome, certain) == (Outcome.HANG, True)
    assert reason is Reason.CYCLE


def test_another_reduction_on_one_rank():
    text = lowered()
    name = re.search(r"to_apply=%?([\w.]+)", reduces(text)[0])[1]
    head, _, rest = text.partition(f"%{name} (")
    odd = f"{head}%{name} ({rest.replace(' add(', ' multiply(', 1)}"
    assert said(odd) == (Outcome.MISMATCH, Reason.REDUCTION, True)


def test_another_type_on_one_rank():
    odd = lowered().replace("f32[", "s32[")
    assert said(odd) == (Outcome.MISMATCH, Reason.ELEMENT_TYPE, True)


def test_a_step_without_its_last_collective_meets_the_next_steps_first():
    text = lowered()
    last = reduces(text)[-1]
    shape, operands = re.search(r"= (\(.*?\)) all-reduce\((.*?)\), replica", last).groups()
    odd = text.replace(last, last.split(" = ")[0] + f" = {shape} tuple({operands})")
    assert said(odd) == (Outcome.HANG, Reason.ENDED, True)
    outcome, reason, certain = said(odd, also=text)
    assert (outcome, reason, certain) == (Outcome.MISMATCH, Reason.SIZE, True)
