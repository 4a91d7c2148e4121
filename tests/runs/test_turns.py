"""What ran at each place of a program, in turn: growth, loops, hits, second steps."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from types import SimpleNamespace

import pytest
from real_modules import explained_run
from written_runs import write

from xlagraph.cause.model import Cause
from xlagraph.message import EMPTY, say
from xlagraph.rules.dtypes.dtype import DTYPE
from xlagraph.rules.inputs.added_input import ADDED_INPUT
from xlagraph.rules.order.output_order import OUTPUT_ORDER
from xlagraph.rules.shapes.layout import LAYOUT
from xlagraph.run.records import PERSISTENT_CACHE
from xlagraph.runs.groups import _further
from xlagraph.runs.kinds import UNEXPLAINED
from xlagraph.runs.model import CauseGroup, Meant, ranked
from xlagraph.runs.steps.spent import Spent
from xlagraph.runs.verdict import run_verdict

HEAD = """HloModule step

ENTRY %main (p: f32[8], q: f32[8]) -> (f32[8], f32[8]) {
  %p = f32[8]{0} parameter(0)
  %q = f32[8]{0} parameter(1)
  %x = f32[8]{0} sine(f32[8]{0} %p)
  %s0 = f32[8]{0} multiply(f32[8]{0} %x, f32[8]{0} %q)
"""
TURN = """  %m{k} = f32[8]{{0}} multiply(f32[8]{{0}} %s{j}, f32[8]{{0}} %p)
  %n{k} = f32[8]{{0}} cosine(f32[8]{{0}} %m{k})
  %s{k} = f32[8]{{0}} add(f32[8]{{0}} %n{k}, f32[8]{{0}} %q)
"""
TAIL = """  %o = f32[8]{{0}} exponential(f32[8]{{0}} {last})
  %y = f32[8]{{0}} subtract(f32[8]{{0}} %q, f32[8]{{0}} %o)
  ROOT %t = (f32[8]{{0}}, f32[8]{{0}}) tuple(f32[8]{{0}} %y, f32[8]{{0}} %o)
}}
"""
START = 4
PAIRS = Path(__file__).resolve().parents[2] / "fixtures" / "pairs"


def looped(turns, more=0):
    """A step with a loop that Python has unrolled, and some instructions more."""
    body = "".join(TURN.format(j=k, k=k + 1) for k in range(turns))
    names = [f"%s{turns}", *(f"%z{k}" for k in range(more))]
    body += "".join(
        f"  {name} = f32[8]{{0}} tan(f32[8]{{0}} {before})\n" for before, name in pairwise(names)
    )
    return HEAD + body + TAIL.format(last=names[-1])


def other(size):
    """A step of another kind."""
    return (
        f"HloModule other\n\nENTRY %main (p: s32[{size}]) -> s32[{size}] {{\n"
        f"  %p = s32[{size}]{{0}} parameter(0)\n"
        f"  %n = s32[{size}]{{0}} negate(s32[{size}]{{0}} %p)\n"
        f"  ROOT %a = s32[{size}]{{0}} abs(s32[{size}]{{0}} %n)\n}}\n"
    )


def lengths(folder, *turns):
    """The problems of a run whose steps have a loop of these lengths."""
    return problems(folder, *(looped(START + n) for n in turns))


def problems(folder, *modules):
    """The problems of a run of these steps."""
    explained = write(folder, [(20, module) for module in modules])
    return [group for group in explained.groups if not group.expected]


@pytest.mark.parametrize(
    "turns",
    [
        (0, 1, 2, 3, 4),
        (0, 0, 1, 2, 3, 4, 5),
        (0, 1, 2, 3, 4, 0, 1, 2, 3, 4),
        (0, 1, 2, 3, 4, 1, 2, 3, 1, 2),
    ],
    ids=["for ever", "begins later", "dropped after an epoch", "epochs of other lengths"],
)
def test_what_is_kept_from_step_to_step_is_growth(tmp_path, turns):
    (problem,) = lengths(tmp_path, *turns)
    assert problem.kind.id == "growing-graph"
    assert "3 instructions larger" in str(problem.title)


@pytest.mark.parametrize(
    "turns",
    [
        (0, 1, 2, 1, 3, 3, 2),
        (0, 0, 1, 1, 2, 2, 3, 3),
        (0, 1, 2, 3, 4, 4, 4, 4),
        (0, 1, 2, 3, 4, 2, 3, 1),
        (4, 3, 2, 1, 0),
    ],
    ids=["random", "scheduled", "ends", "earlier lengths come again", "shrinks"],
)
def test_a_loop_of_another_length_is_no_growth(tmp_path, turns):
    (problem,) = lengths(tmp_path, *turns)
    assert problem.kind.id == "extra-subgraph"
    assert "loop or list has another length" in str(problem.title)
    assert problem.proved


def test_pieces_of_uneven_size_are_no_loop(tmp_path):
    steps = [looped(START + n, more) for n, more in ((0, 0), (1, 1), (3, 2), (5, 2))]
    found = problems(tmp_path, *(steps[k] for k in (0, 0, 2, 1, 3)))
    assert {group.kind.id for group in found} == {"extra-subgraph"}
    assert all("another length" not in str(group.title) for group in found)


def test_a_first_step_that_computes_more_hides_no_loop(tmp_path):
    steps = [looped(START + 5, more=1), *(looped(START + n) for n in (1, 0, 2, 4, 1, 0))]
    (problem,) = problems(tmp_path, *steps)
    assert "loop or list has another length" in str(problem.title)
    assert len(problem.graphs) == 4


def test_uneven_pieces_behind_a_first_step_that_computes_more_are_no_loop(tmp_path):
    steps = [(5, 1), (1, 0), (0, 1), (2, 2), (4, 1), (6, 0)]
    found = problems(tmp_path, *(looped(START + n, more) for n, more in steps))
    assert all("another length" not in str(group.title) for group in found)


def test_hits_of_the_only_graph_of_a_place_are_its_own(tmp_path):
    steps = [(20, looped(1)), (20, None), (20, None), (30, other(4)), (20, None), (30, None)]
    explained = write(tmp_path, steps)
    assert [node.hits_text for node in explained.graphs] == ["3", "1"]
    assert explained.unnamed_hits == 0


def test_hits_that_may_be_of_several_graphs_are_said_to_be_unknown(tmp_path):
    steps = [(20, looped(1)), (20, None), (20, looped(5)), (20, looped(5)), (20, None)]
    explained = write(tmp_path, steps)
    assert [node.hits_text for node in explained.graphs] == ["1+", "1+"]
    assert explained.unnamed_hits == 1


def test_a_graph_from_a_cache_on_disk_may_have_run(tmp_path):
    steps = [(20, looped(1)), (20, None)]
    explained = write(tmp_path, steps, notes=[PERSISTENT_CACHE])
    assert [node.hits_text for node in explained.graphs] == ["0+"]


def test_the_second_of_two_steps_is_warm_up(tmp_path):
    explained = write(tmp_path, [(20, looped(6)), (30, looped(1))] * 4)
    assert not explained.has_problem
    titles = [str(group.title) for group in explained.groups]
    assert any("B (step at train.py:30 in main())" in title for title in titles)


def test_a_sync_that_cuts_a_step_is_no_part_of_its_own(tmp_path):
    steps = [(20, looped(6))] * 3
    cut = [(10, looped(1)), (20, looped(5))]
    assert write(tmp_path / "cut", [*steps, *cut, *steps]).has_problem
    own = write(tmp_path / "own", [*steps, (10, looped(1)), *steps])
    assert not own.has_problem, "the steps are the same after it"


def test_ranks_whose_second_steps_differ(tmp_path):
    plans = [[(20, looped(6)), (30, looped(turns))] * 3 for turns in (1, 2)]
    for k, ranks in enumerate((plans, plans[::-1])):
        assert write(tmp_path / str(k), *ranks).has_problem


def test_a_graph_unlike_all_others_is_compared_with_the_last_of_its_place(tmp_path):
    explained = write(tmp_path, [(20, other(4))] * 3 + [(20, other(5))])
    (problem,) = [group for group in explained.groups if not group.expected]
    assert (problem.kind.id, problem.proved) == ("input-shape", True)
    assert explained.graphs[1].nearest == explained.graphs[0].digest


def group(*, proved, further=0, effect=EMPTY):
    nothing = frozenset()
    cause = Cause(DTYPE, say("a title"), (), EMPTY, 1.0, proved, EMPTY, False, nothing, nothing)
    cause = replace(cause, effect=effect)
    return CauseGroup(
        DTYPE,
        cause.title,
        cause,
        (replace(cause, short=say("another is told")),) * further,
        (),
        1,
        Spent(((float(proved), 1.0 + proved),)),
        expected=False,
        proved=proved,
    )


def costing(seconds, compiles, *, proved=True, expected=False):
    one = replace(group(proved=proved), compiles=compiles, expected=expected)
    return replace(one, spent=Spent(((0.0, seconds),)))


def test_of_causes_that_cost_nearly_the_same_the_one_of_most_compiles_is_first():
    kept, place, early = costing(4.1, 4), costing(4.0, 7), costing(2.7, 5)
    assert ranked([early, kept, place]) == (place, kept, early)


def unknown(seconds, compiles):
    return replace(costing(seconds, compiles), kind=UNEXPLAINED, cause=None, proved=False)


def test_what_no_cause_explains_stays_behind_what_goes_on_and_has_one():
    dear, named, once = unknown(18.3, 9), costing(1.2, 12), costing(0.3, 1)
    assert ranked([dear, once, named]) == (named, dear, once)


@pytest.mark.parametrize(
    "other", [costing(3.6, 7), costing(4.0, 7, proved=False), costing(9, 9, expected=True)]
)
def test_what_costs_less_or_is_not_sure_stays_behind(other):
    dear = costing(4.1, 4)
    assert ranked([other, dear]) == (dear, other)


def verdict(run, *groups):
    return str(run_verdict(run, groups, (), None, 5, 0, began_late=False))


def test_a_cause_that_spoils_values_is_said_before_the_time(tmp_path):
    run = write(tmp_path, [(20, looped(1))]).run
    wrong = group(proved=True, effect=say("Values are wrong."))
    said = verdict(run, wrong, group(proved=False))
    what = "The same computation runs in another dtype"
    assert said.startswith(f"{what}. Keep ")
    lost = "2 compiles beyond warm-up lost 2.0 s, 1.0 s by this."
    assert f" Values are wrong. {lost} 1 other cause" in said


def test_a_verdict_says_where_it_is_not_sure(tmp_path):
    run = write(tmp_path, [(20, looped(1))]).run
    sure, unsure = group(proved=True), group(proved=False)
    what = "the same computation runs in another dtype"
    fix = "Keep autocast and the inputs' dtypes the same in all steps."
    assert verdict(run, sure) == f"1 compile beyond warm-up lost 1.0 s: {what}. {fix}"
    assert verdict(run, unsure) == (
        f"1 compile beyond warm-up lost 1.0 s; suspected: {what}. {fix}"
    )
    assert verdict(run, sure, unsure) == (
        f"1 of 2 compiles beyond warm-up lost 1.0 s: {what}. {fix} "
        f"1 other cause: {what} (1 compile, 1.0 s; suspected, not proved)."
    )


def test_a_verdict_counts_what_else_differs(tmp_path):
    run = write(tmp_path, [(20, looped(1))]).run
    many = group(proved=True, further=3)
    said = verdict(run, replace(many, frequent=many.further))
    assert verdict(run, many) == verdict(run, group(proved=True))
    assert said.endswith("graphs: another is told; another is told and 1 further cause.")


def test_what_is_told_in_the_same_words_is_no_further_cause(tmp_path):
    run = write(tmp_path, [(20, looped(1))]).run
    first = group(proved=True)
    assert verdict(run, replace(first, frequent=(first.cause,))) == verdict(run, first)


@pytest.mark.parametrize(
    ("graphs", "told"),
    [
        (((OUTPUT_ORDER, DTYPE), (OUTPUT_ORDER,)), [DTYPE, OUTPUT_ORDER]),
        (((ADDED_INPUT, DTYPE), (ADDED_INPUT,)), [ADDED_INPUT, DTYPE]),  # of more graphs
        (((OUTPUT_ORDER,), (OUTPUT_ORDER,)), [OUTPUT_ORDER]),
    ],
)
def test_the_order_of_outputs_is_told_behind_what_it_may_come_of(graphs, told):
    own = replace(group(proved=True).cause, kind=LAYOUT, a=frozenset({1}))
    causes = [(own, *(replace(own, kind=kind) for kind in kinds)) for kinds in graphs]
    outcomes = [SimpleNamespace(causes=one) for one in causes]
    nodes = [
        SimpleNamespace(digest=str(k), explanation=one, meant=Meant.NOT)
        for k, one in enumerate(outcomes)
    ]
    assert [cause.kind for cause, _ in _further(LAYOUT, None, nodes)] == told


def test_what_else_differs_in_a_graph_is_not_lost():
    explained = explained_run(PAIRS / "extra_sync")
    further = {group.graphs: [c.kind.id for c in group.further] for group in explained.groups}
    assert further[explained.graphs[2].digest,] == ["live-tensor"]


def test_a_verdict_calls_nothing_a_cause_that_is_none(tmp_path):
    run = write(tmp_path, [(20, looped(1))]).run
    said = CauseGroup(
        UNEXPLAINED,
        say("the modules differ"),
        None,
        (),
        (),
        1,
        Spent(((0.0, 1.0),)),
        expected=False,
        proved=False,
    )
    assert verdict(run, said) == (
        "1 compile beyond warm-up lost 1.0 s: no known cause fits. "
        "Look at the two modules side by side."
    )
