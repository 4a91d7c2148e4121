"""Few graphs that came early and only ran again since are told, and are no alarm."""

from __future__ import annotations

from itertools import pairwise
from types import SimpleNamespace

import pytest
from written_runs import write
from written_steps import step, window

from xlagraph.rules.shapes.sizes import INPUT_SHAPE
from xlagraph.run.records import EARLIER_COMPILES
from xlagraph.runs.by_design.early import _Early

AT_RANDOM = (3, 7, 12, 15, 20, 22, 28)


def run_of(folder, special=AT_RANDOM, *, steps=30, other=8, notes=(), **what):
    """Steps at one line, of which the ``special`` ones are others, in no order."""
    modules = [step(other, **what) if k in special else step() for k in range(steps)]
    return write(folder, [(20, module) for module in modules], notes=notes)


def test_what_comes_in_no_order_since_the_first_steps_is_told_and_no_alarm(tmp_path):
    run = run_of(tmp_path, more=True)
    assert not run.has_problem
    assert str(run.verdict).startswith("Stable: 2 compiles, 1.0 s, the last in step 3; none in ")
    (note,) = run.verdict.notes
    assert str(note) == (
        "Settled since step 3: 1 compile, 0.50 s, of a graph that none like it followed; what "
        "it differs in stands in the list of causes."
    )
    (group,) = [group for group in run.groups if group.meant]
    assert (group.meant, group.kind.id, group.proved) == ("early", "extra-subgraph", True)


def test_a_value_kept_in_no_order_is_told_too(tmp_path):
    run = run_of(tmp_path, kept=True)
    assert not run.has_problem
    (group,) = [group for group in run.groups if group.meant]
    assert (group.meant, group.kind.id) == ("early", "live-tensor")


@pytest.mark.parametrize(
    ("special", "steps"),
    [(AT_RANDOM, 14), ((16, 17, 19, 22, 28), 30), ((3,), 19), ((3, 8), 19)],
    ids=["short", "late", "once", "once again"],
)
def test_what_may_still_come_or_came_once_is_a_problem(tmp_path, special, steps):
    (problem,) = run_of(tmp_path, special, steps=steps, more=True).problems
    assert (problem.kind.id, problem.compiles) == ("extra-subgraph", 1)


def test_what_came_once_is_none_where_nothing_came_for_long(tmp_path):
    """As a step that is run before a stage, so that it is compiled by then."""
    run = run_of(tmp_path, (3,), steps=20, more=True)
    assert not run.has_problem
    assert str(run.verdict).startswith("Stable: 2 compiles, 1.0 s, the last in step 3; none in ")


def test_many_graphs_are_a_problem(tmp_path):
    """Ten sizes by no rule, each of which runs again."""
    again = [16, 9, 12, 15, 10, 18, 13, 11, 17, 14]
    run = write(tmp_path, [(20, step(size)) for size in [8, 8, *sorted(again), *again * 3]])
    assert sum(group.compiles for group in run.problems) == 10


def test_graphs_from_before_the_capture_leave_it_open(tmp_path):
    assert run_of(tmp_path, more=True, notes=(EARLIER_COMPILES,)).has_problem


LENGTHS = (12, 8, 32)


def forward(size):
    """What an evaluation reads: the first part of a step."""
    return step(size).partition("  %d = ")[0] + f"  ROOT %e = s32[{size}]{{0}} negate(%c)\n}}\n"


@pytest.mark.parametrize("line", [30, 15], ids=["behind the steps", "within them"])
def test_batches_that_an_evaluation_reads_come_in_the_sizes_of_the_training(tmp_path, line):
    def epoch():
        reads = ((line, forward(size), "value") for size in LENGTHS)
        return [*((20, step(size)) for size in LENGTHS * 3), *reads]

    run = write(tmp_path, [one for _ in range(4 if line == 30 else 2) for one in epoch()])
    assert run.has_problem is (line == 15)


def test_what_a_program_computes_at_its_end_leaves_its_steps_as_they_were(tmp_path):
    special = step(more=True)
    steps = [(20, special if k in AT_RANDOM else step()) for k in range(30)]
    run = write(tmp_path, [*steps, (30, TURNED.format(turns="", last="0").replace("%t0", "%s"))])
    assert not run.has_problem


def test_a_size_that_is_the_exception_is_a_problem(tmp_path):
    sizes = [8] * 5 + [6] + [8, 8, 8, 6, 8, 8, 8, 8, 8, 6] * 3
    steps = [(20, step(size).replace(f"[{size}]{{0}}", f"[4,{size}]{{1,0}}")) for size in sizes]
    assert write(tmp_path, steps).has_problem


@pytest.mark.parametrize(("times", "is_problem"), [(10, True), (12, False)])
def test_sizes_of_which_many_steps_brought_no_other_are_told(tmp_path, times, is_problem):
    sizes = [8, 8, 8, 12] * times
    steps = [(20, step(size).replace(f"[{size}]{{0}}", f"[{size},4]{{1,0}}")) for size in sizes]
    run = write(tmp_path, steps)
    assert run.has_problem is is_problem
    assert is_problem or "Settled since step 3: " in "".join(map(str, run.verdict.notes))


def test_graphs_that_grew_from_turn_to_turn_are_a_problem(tmp_path):
    """Windows of a sequence, each of which goes back through those before it, in a short loop."""
    steps = [(20, window(k % 5)) for k in range(40)]
    assert sum(group.compiles for group in write(tmp_path, steps).problems) >= 3


@pytest.mark.parametrize(
    ("sizes", "is_problem"),
    [([8, 12, 16] * 3 + [20], False), ([8, 12] * 3 + [16], True)],
    ids=["several", "one"],
)
def test_a_size_may_have_run_in_hits_without_names_where_others_come_again(
    tmp_path, sizes, is_problem
):
    wide = [step(size).replace(f"[{size}]{{0}}", f"[4,{size}]{{1,0}}") for size in sizes]
    run = write(tmp_path, [(20, one) for one in [*wide, *[None] * 20]])
    assert run.has_problem is is_problem


TURNED = """HloModule step

ENTRY %main (p: f32[8]) -> f32[8] {{
  %p = f32[8]{{0}} parameter(0)
  %s = f32[8]{{0}} tanh(f32[8]{{0}} %p)
{turns}
  ROOT %e = f32[8]{{0}} exponential(f32[8]{{0}} %t{last})
}}
"""


def turned(number):
    """A step with so many turns of a loop."""
    values = ["s", *(f"t{k}" for k in range(number))]
    turns = "\n".join(
        f"  %u{k} = f32[8]{{0}} cosine(f32[8]{{0}} %{old})\n"
        f"  %{new} = f32[8]{{0}} multiply(f32[8]{{0}} %u{k}, f32[8]{{0}} %{old})"
        for k, (old, new) in enumerate(pairwise(values))
    )
    return TURNED.format(turns=turns, last=number - 1)


@pytest.mark.parametrize(("lengths", "is_problem"), [((3, 5, 2, 4), True), ((3, 5), False)])
def test_a_loop_of_many_lengths_is_a_problem(tmp_path, lengths, is_problem):
    early = [(20, turned(number)) for number in (6, 6, *lengths)]
    again = [(20, turned(number)) for number in (6, *lengths, *reversed(lengths)) * 6]
    assert write(tmp_path, early + again).has_problem == is_problem


def batch(*, is_mixed):
    """A step whose loss has a second label where the batch is mixed, which then is computed."""
    a, o = "f32[8]{0}", "f32[4]{0}"
    mixed = [
        f"%r = {a} parameter(2)",
        f"%n = {a} parameter(3)",
        f"%m = {a} multiply({a} %p, {a} %r)",
    ]
    x = "%m" if is_mixed else "%p"
    further = [
        f"%l = {a} tanh({a} %n)",
        f"%k = {a} multiply({a} %l, {a} %c)",
        f"%g = {a} add({a} %d, {a} %k)",
    ]
    lines = [
        f"%p = {a} parameter(0)",
        f"%q = {a} parameter(1)",
        *(mixed if is_mixed else ()),
        f"%b = {a} cosine({a} {x})",
        f"%c = {a} add({a} %b, {a} %q)",
        f"%d = {a} negate({a} %c)",
        *(further if is_mixed else ()),
        f"%e = {a} multiply({a} {'%g' if is_mixed else '%d'}, {a} {x})",
        *(f"%{k}s = {o} slice({a} %{k}), slice={{[0:4]}}" for k in "ce"),
        f"ROOT %t = ({o}, {o}) tuple({o} %cs, {o} %es)",
    ]
    head = f"HloModule step\n\nENTRY %main (p: {a}) -> ({o}, {o}) {{"
    return "\n  ".join([head, *lines]) + "\n}\n"


def test_a_batch_that_is_mixed_in_some_steps_is_no_part_that_ran_early(tmp_path):
    run = write(tmp_path, [(20, batch(is_mixed=k in AT_RANDOM)) for k in range(30)])
    assert "early-execution" in {cause.kind.id for cause in run.graphs[1].explanation.causes}
    assert not run.has_problem


def test_a_part_that_a_value_needed_is_a_problem(tmp_path):
    def steps(k):
        reads = [(15, forward(8), "value")] if k in AT_RANDOM else []
        return [*reads, (20, batch(is_mixed=k not in AT_RANDOM))]

    assert write(tmp_path, [one for k in range(30) for one in steps(k)]).has_problem


def weighted(value):
    """A step whose loss has a weight: an input, or a special number in the text."""
    is_input = value is None
    more = ", w: f32[]" if is_input else ""
    number = "parameter(1)" if is_input else f"constant({value})"
    return (
        f"HloModule step\n\nENTRY %main (p: f32[8]{more}) -> f32[8] {{\n"
        "  %p = f32[8]{0} parameter(0)\n"
        f"  %w = f32[] {number}\n"
        "  %b = f32[8]{0} broadcast(f32[] %w), dimensions={}\n"
        "  %m = f32[8]{0} multiply(f32[8]{0} %p, f32[8]{0} %b)\n"
        "  ROOT %t = f32[8]{0} tanh(f32[8]{0} %m)\n}\n"
    )


def test_a_number_that_is_one_now_and_then_makes_one_graph_more_and_is_no_alarm(tmp_path):
    turns = [None, None, 1, None, 1, 1] + [None, 1, 1, None, None] * 6
    run = write(tmp_path, [(20, weighted(value)) for value in turns])
    assert not run.has_problem
    (group,) = [group for group in run.groups if group.meant]
    assert (group.meant, group.kind.id, group.proved) == ("early", "special-scalar", True)


def test_a_number_that_is_one_at_the_end_of_a_run_stays_a_problem(tmp_path):
    run = write(tmp_path, [(20, weighted(value)) for value in [None] * 20 + [1] * 4])
    assert [problem.kind.id for problem in run.problems] == ["special-scalar"]


ACTS = """HloModule act
ENTRY main {
  %o = f32[4,3]{1,0} parameter(0)
  %w = f32[3,2]{1,0} parameter(1)
  %d = f32[4,2]{1,0} dot(%o, %w), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  ROOT %a = f32[4,2]{1,0} tanh(%d)
}
"""


@pytest.mark.parametrize(
    ("other", "is_problem"), [((), False), ((8,), True)], ids=["apart", "another graph behind it"]
)
def test_a_read_that_begins_later_and_is_like_nothing_before_is_no_alarm(
    tmp_path, other, is_problem
):
    """An agent that acts at random first, and then by its network in every step."""
    plan = []
    for k in range(30):
        plan += [(10, ACTS, "value")] if k >= 5 else []
        plan.append((20, step(more=k in other)))
    run = write(tmp_path, plan)
    assert run.has_problem is is_problem
    if not is_problem:
        assert str(run.verdict).startswith("Stable")


def test_a_read_behind_steps_over_batches_of_several_lengths_cuts_none(tmp_path):
    """The first batch is a short one, whose step is not half as large as others."""
    epoch = [(20, window(k)) for k in (0, 9, 5) * 4] + [(30, ACTS, "value")]
    run = write(tmp_path, epoch + epoch)
    assert not any(group.kind.id == "early-execution" for group in run.groups)


def cut(kept):
    """Weights of which Python keeps so many."""
    a, o = "f32[8]{0}", f"f32[{kept}]{{0}}"
    return (
        f"HloModule cut\n\nENTRY %main (p: {a}) -> {o} {{\n"
        f"  %p = {a} parameter(0)\n"
        f"  %a = {a} abs({a} %p)\n"
        f"  ROOT %s = {o} slice({a} %a), slice={{[0:{kept}]}}\n}}\n"
    )


@pytest.mark.parametrize(
    ("cuts", "steps", "is_problem"),
    [
        ({3: 7, 9: 6, 15: 5}, 70, False),
        ({3: 7, 9: 6, 15: 5}, 30, True),
        ({3: 7, 9: 6, 15: 5, 21: 4, 27: 3}, 90, True),
    ],
    ids=["few, and long ago", "not long ago", "many"],
)
def test_events_at_a_place_of_their_own_are_none_where_they_ran_once_each(
    tmp_path, cuts, steps, is_problem
):
    """As weights that are pruned at a few steps, to another number at each."""

    def syncs(k):
        return [(20, step()), *([(33, cut(cuts[k]))] if k in cuts else [])]

    run = write(tmp_path, [one for k in range(steps) for one in syncs(k)])
    assert run.has_problem == is_problem


@pytest.mark.parametrize(
    ("before", "own", "kinds", "is_left_out"),
    [
        (100, 80, (), True),
        (100, 40, (), True),
        (100, 80, (INPUT_SHAPE,), True),
        (100, 40, (INPUT_SHAPE,), False),
        (60, 100, (), False),
    ],
    ids=["an update", "all of a backward pass", "of a short batch", "evaluation", "micro-batch"],
)
def test_an_update_is_left_out_by_what_is_part_of_a_step(before, own, kinds, is_left_out):
    nodes = [SimpleNamespace(instructions=number) for number in (before, own)]
    outcome = SimpleNamespace(causes=[SimpleNamespace(kind=kind, short="") for kind in kinds])
    early = _Early(nodes, (), (), None, None, has_all_sizes=True)
    assert early._skips(1, 0, outcome) == is_left_out
