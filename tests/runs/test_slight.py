"""What came once beside a cause of many compiles, and no more."""

from __future__ import annotations

from dataclasses import replace

import pytest
from written_runs import write

from xlagraph.rules.training.newly_updated import SKIPPED_UPDATE
from xlagraph.runs.model import Meant
from xlagraph.runs.slight import with_slight
from xlagraph.runs.steps.spent import Spent

END = 20
STEP = """HloModule step

ENTRY %main (p: f32[4]) -> f32[4] {{
  %p = f32[4]{{0}} parameter(0)
  %c = f32[] constant({number})
  %b = f32[4]{{0}} broadcast(f32[] %c), dimensions={{}}
  %m = f32[4]{{0}} multiply(f32[4]{{0}} %p, f32[4]{{0}} %b)
  ROOT %a = f32[4]{{0}} tanh(f32[4]{{0}} %m)
}}
"""
LOGGED = """HloModule logged

ENTRY %main (p: f32[4]) -> (f32[4], f32[4]) {
  %p = f32[4]{0} parameter(0)
  %c = f32[] constant(2)
  %b = f32[4]{0} broadcast(f32[] %c), dimensions={}
  %m = f32[4]{0} multiply(f32[4]{0} %p, f32[4]{0} %b)
  %a = f32[4]{0} tanh(f32[4]{0} %m)
  %n = f32[4]{0} negate(f32[4]{0} %m)
  ROOT %t = (f32[4]{0}, f32[4]{0}) tuple(f32[4]{0} %a, f32[4]{0} %n)
}
"""


def explained(folder):
    """Steps of ever another number, and one that keeps a tensor, beside."""
    syncs = [(END, STEP.format(number=2))] * 4 + [(END, LOGGED)] * 2
    return write(folder, [*syncs, *((END, STEP.format(number=k)) for k in range(2, 13))])


def test_what_came_once_is_told_and_is_no_problem_of_its_own(tmp_path):
    run = explained(tmp_path)
    (problem,) = run.problems
    assert (problem.kind.id, problem.compiles) == ("constant-value", 10)
    (slight,) = (group for group in run.groups if group.meant is Meant.SELDOM)
    assert (slight.kind.id, slight.compiles) == ("live-tensor", 1)
    assert str(run.verdict).endswith(
        "What came seldom beside it (1 compile, 0.50 s) is listed below."
    )
    assert all(run.graphs[k].warm_up == (k < 2) for k in range(len(run.graphs)))


@pytest.mark.parametrize(
    "changed",
    [
        pytest.param(lambda first, one: (replace(first, compiles=5), one), id="few"),
        pytest.param(lambda first, one: (first, replace(one, spent=first.spent)), id="dear"),
        pytest.param(lambda first, one: (first, replace(one, kind=SKIPPED_UPDATE)), id="never"),
    ],
)
def test_what_is_not_slight_stays_a_problem(tmp_path, changed):
    run = explained(tmp_path)
    first, one = run.problems[0], next(g for g in run.groups if g.meant is Meant.SELDOM)
    one = replace(one, expected=False, meant=Meant.NOT)
    assert len([g for g in with_slight((first, one), run.graphs, END)[0] if not g.expected]) == 1
    groups, _ = with_slight(changed(first, one), run.graphs, END)
    assert not any(group.expected for group in groups)


@pytest.mark.parametrize(("part", "is_seldom"), [(0.45, True), (0.55, False)])
def test_a_rare_compile_may_take_long_beside_many_small_ones(tmp_path, part, is_seldom):
    run = explained(tmp_path)
    first, one = run.problems[0], next(g for g in run.groups if g.meant is Meant.SELDOM)
    spent = Spent(((0.0, part * first.spent.wall_seconds),))
    one = replace(one, expected=False, meant=Meant.NOT, spent=spent)
    groups, _ = with_slight((first, one), run.graphs, END)
    assert [group.expected for group in groups] == [False, is_seldom]
