"""What came once beside a cause of many compiles, and no more; and what is one cause."""

from __future__ import annotations

from dataclasses import replace

import pytest
from written_runs import write

from xlagraph.cause.verdict import Place
from xlagraph.message import SourceLine
from xlagraph.rules.inputs.live_tensors import LIVE_TENSOR
from xlagraph.rules.pieces.extra_subgraph import EXTRA_SUBGRAPH
from xlagraph.rules.training.newly_updated import SKIPPED_UPDATE
from xlagraph.rules.training.optimizer_state import SKIPPED_BLOCK
from xlagraph.runs.model import Meant
from xlagraph.runs.of_lists import with_history
from xlagraph.runs.slight import with_slight
from xlagraph.runs.steps.spent import Spent

END = 20
HERE = Place(line=SourceLine("train.py", END, "main"))
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


@pytest.mark.parametrize(("hits", "is_seldom"), [(1, False), (2, True)])
def test_a_graph_that_comes_at_the_end_of_each_epoch_may_take_as_long_as_it_does(
    tmp_path, hits, is_seldom
):
    run = explained(tmp_path)
    first, one = run.problems[0], next(g for g in run.groups if g.meant is Meant.SELDOM)
    one = replace(one, expected=False, meant=Meant.NOT, spent=first.spent)
    nodes = [replace(n, hits=hits) if n.digest in one.graphs else n for n in run.graphs]
    groups, _ = with_slight((first, one), nodes, END)
    assert [group.expected for group in groups] == [False, is_seldom]


@pytest.mark.parametrize(
    ("compiles", "kind", "is_seldom"),
    [(1, LIVE_TENSOR, True), (2, LIVE_TENSOR, False), (9, EXTRA_SUBGRAPH, False)],
)
def test_one_in_twenty_at_the_line_of_the_first_cause_is_most_likely_that(
    tmp_path, compiles, kind, is_seldom
):
    run = explained(tmp_path)
    first, one = run.problems[0], next(g for g in run.groups if g.meant is Meant.SELDOM)
    first = replace(first, compiles=20, place=HERE)
    dear = {"expected": False, "meant": Meant.NOT, "spent": first.spent}
    one = replace(one, compiles=compiles, kind=kind, place=HERE, **dear)
    groups, _ = with_slight((first, one), run.graphs, END)
    assert [group.expected for group in groups] == [False, is_seldom]


@pytest.mark.parametrize(("compiles", "is_seldom"), [(10, True), (11, False)])
def test_what_else_a_call_computes_whose_blocks_are_left_out_comes_of_that(
    tmp_path, compiles, is_seldom
):
    run = explained(tmp_path)
    first, one = run.problems[0], next(g for g in run.groups if g.meant is Meant.SELDOM)
    first = replace(first, compiles=20, kind=SKIPPED_BLOCK, place=HERE)
    dear = {"expected": False, "meant": Meant.NOT, "spent": first.spent}
    one = replace(one, compiles=compiles, kind=EXTRA_SUBGRAPH, place=HERE, **dear)
    groups, _ = with_slight((first, one), run.graphs, END)
    assert [group.expected for group in groups] == [False, is_seldom]


def test_what_l_bfgs_makes_of_a_longer_history_is_one_cause(tmp_path):
    """It differs in many ways, at one line of the program, within the code of the optimizer."""
    run = explained(tmp_path)
    first, one = run.problems[0], next(g for g in run.groups if g.meant is Meant.SELDOM)
    one = replace(one, expected=False, meant=Meant.NOT, place=HERE)
    called = SourceLine("/site-packages/torch/optim/lbfgs.py", 371, "step")
    cited = replace(one.cause.evidence[0], sources=(HERE.line._replace(called=called),))
    inside = replace(one, cause=replace(one.cause, evidence=(cited,)))
    first = replace(first, place=HERE)
    (group,) = with_history((first, inside))
    assert group.compiles == first.compiles + one.compiles
    assert str(group.in_short) == "The history that LBFGS keeps grows with every step"
    assert len(with_history((first, one))) == 2
    assert len(with_history((replace(first, place=Place()), inside))) == 2
