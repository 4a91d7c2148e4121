"""Parts of a program in turn: what one leaves, the first step of the next takes in."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
from written_runs import write

from xlagraph.run.records import ParameterTensor
from xlagraph.runs.by_design.small import small_graphs
from xlagraph.tensors import Role, Tensor

HEAD = """HloModule step

ENTRY %main (p: f32[{size}], q: f32[8]) -> (f32[8], f32[8]) {{
  %p = f32[{size}]{{0}} parameter(0)
  %q = f32[8]{{0}} parameter(1)
"""
WHOLE = """  %s = f32[4]{0} sine(f32[4]{0} %p)
  %g = f32[8]{0} concatenate(f32[4]{0} %s, f32[4]{0} %p), dimensions={0}
"""
REST = """  %a = f32[8]{0} multiply(f32[8]{0} %g, f32[8]{0} %q)
  %b = f32[8]{0} cosine(f32[8]{0} %a)
  %c = f32[8]{0} add(f32[8]{0} %b, f32[8]{0} %q)
  %d = f32[8]{0} tanh(f32[8]{0} %c)
  ROOT %t = (f32[8]{0}, f32[8]{0}) tuple(f32[8]{0} %c, f32[8]{0} %d)
}
"""
STEP = HEAD.format(size=4) + WHOLE + REST
FIRST = HEAD.format(size=8) + REST.replace("%g", "%p")
"""What the part before has computed comes in as it is needed."""
OTHER = """HloModule other

ENTRY %main (p: s32[4]) -> s32[4] {
  %p = s32[4]{0} parameter(0)
  %n = s32[4]{0} negate(s32[4]{0} %p)
  ROOT %a = s32[4]{0} abs(s32[4]{0} %n)
}
"""


def problems(folder, steps):
    return [group for group in write(folder, steps).groups if not group.expected]


def phases(line):
    """Three steps, then one at a line: behind it what that has left comes in ready-made."""
    other = line, OTHER
    return [*[(20, STEP)] * 3, other, *([(20, FIRST), (20, STEP), (20, STEP), other] * 4)]


def test_the_first_step_of_each_phase_may_have_a_graph_of_its_own(tmp_path):
    run = write(tmp_path, phases(30))
    assert not run.has_problem
    (by_design,) = [group for group in run.groups if group.kind.id == "by-design"]
    assert str(by_design.title) == (
        "a kind of step with a graph of its own, by design: C (step at train.py:20 in main() at "
        "the start of each phase)"
    )


def test_where_all_run_at_one_place_there_are_no_phases(tmp_path):
    assert problems(tmp_path, phases(20))


def test_a_first_step_that_does_not_always_come_first_is_a_problem(tmp_path):
    steps = phases(30)
    steps[6:7] = [(20, FIRST)]
    assert problems(tmp_path, steps)


UPDATE = """HloModule update

ENTRY %main (w: f32[8], x: f32[8]) -> (f32[8], f32[8]) {{
  %w = f32[8]{{0}} parameter(0)
  %x = f32[8]{{0}} parameter(1)
  %g = f32[8]{{0}} multiply(f32[8]{{0}} %w, f32[8]{{0}} %x)
  %new = f32[8]{{0}} subtract(f32[8]{{0}} %w, f32[8]{{0}} %g)
  %loss = f32[8]{{0}} cosine(f32[8]{{0}} %g)
  ROOT %t = (f32[8]{{0}}, f32[8]{{0}}) tuple({outputs})
}}
"""
WEIGHT = Tensor("", "weight", Role.PARAMETER)
ORDERS = {
    UPDATE.format(outputs="%loss, %new"): (None, WEIGHT),
    UPDATE.format(outputs="%new, %loss"): (WEIGHT, None),
}


@pytest.mark.parametrize(
    ("order", "compiles"), [((0, 1, 1, 1, 1), 0), ((0, 1, 0, 1, 0), 1)], ids=["once", "in turn"]
)
def test_outputs_that_find_their_order_in_the_second_step_are_no_problem(tmp_path, order, compiles):
    texts = list(ORDERS)
    tensors = {text: ((ParameterTensor(0, WEIGHT),), outputs) for text, outputs in ORDERS.items()}
    run = write(tmp_path, [(20, texts[k]) for k in order], tensors=tensors)
    found = [group for group in run.groups if not group.expected]
    assert sum(group.compiles for group in found) == compiles
    assert {group.kind.id for group in found} <= {"output-order"}


@pytest.mark.parametrize(
    ("turn", "number_of_part", "small"),
    [
        ((3, 3, 40), 30, {0, 2}),
        ((30, 30, 40), 30, {0}),
        ((30, 1, 10), 30, {0, 2}),
        ((30, 30, 40), 0, {0, 2}),
    ],
    ids=["early", "late", "early at its place", "with a part of the program"],
)
def test_small_graphs_are_no_problem_where_no_new_one_comes(turn, number_of_part, small):
    """Each graph has a step, the number of its turn at its place, and how many turns that has."""
    found = [(0, 0, 40), (0, 0, 40), turn, (30, number_of_part, 40)]
    graphs = [
        SimpleNamespace(
            step=step,
            process=SimpleNamespace(file="records"),
            sync=SimpleNamespace(entry=k, kind="step", call_site=(), number=number, total=total),
        )
        for k, (step, number, total) in enumerate(found)
    ]
    turns = SimpleNamespace(number=lambda _, sync: sync.number, total=lambda _, sync: sync.total)
    design = SimpleNamespace(is_small=lambda number: number in (0, 2))
    assert small_graphs(graphs, design, SimpleNamespace(steps=40, turns=turns)) == small


@pytest.mark.parametrize(
    ("kind", "weights", "small"),
    [("value", False, {1}), ("value", True, set()), ("step", False, set())],
    ids=["a metric", "a loss", "a step"],
)
def test_what_is_read_without_weights_cuts_no_step(kind, weights, small):
    graphs = [
        SimpleNamespace(
            step=3,
            process=SimpleNamespace(file="records"),
            sync=SimpleNamespace(entry=k, kind=kind if k else "step", call_site=()),
        )
        for k in range(2)
    ]
    turns = SimpleNamespace(number=lambda *_: 10, total=lambda *_: 40)
    design = SimpleNamespace(
        is_small=lambda _: False, takes_no_weights=lambda number: number == 1 and not weights
    )
    assert small_graphs(graphs, design, SimpleNamespace(steps=40, turns=turns)) == small


GIVEN = STEP.replace("HloModule step", "HloModule step, buffer_donor={ (1, {}) }")


def test_a_copy_that_another_part_makes_shares_the_tensors(tmp_path):
    run = write(tmp_path, [*[(20, GIVEN)] * 4, (30, OTHER), (20, STEP), *[(20, GIVEN)] * 3])
    assert not run.has_problem
    (by_design,) = [group for group in run.groups if group.kind.id == "by-design"]
    assert "C (step at train.py:20 in main() behind another part)" in str(by_design.title)


def test_a_copy_that_was_taken_once_is_no_alarm(tmp_path):
    """As of the best weights so far, within the loop."""
    run = write(tmp_path, [*[(20, GIVEN)] * 4, (20, STEP), *[(20, GIVEN)] * 12])
    assert not run.has_problem
    (group,) = (group for group in run.groups if group.kind.id == "donors")
    assert (group.meant, group.compiles) == ("seldom", 1)


@pytest.mark.parametrize(
    "steps",
    [
        [*[(20, GIVEN)] * 4, (20, STEP), *[(20, GIVEN)] * 3],
        [*[(20, GIVEN)] * 4, (30, OTHER), (20, GIVEN), (20, STEP), (20, GIVEN)],
        [*[(20, GIVEN)] * 4, (30, OTHER), (20, STEP), (20, GIVEN), (20, STEP)],
    ],
    ids=["within a loop", "later in a phase", "there as well"],
)
def test_other_buffers_in_other_steps_are_a_problem(tmp_path, steps):
    assert [group.kind.id for group in problems(tmp_path, steps)] == ["donors"]


COUNTED = """HloModule counted

ENTRY %main (p: f32[8]{type}) -> f32[8] {{
  %p = f32[8]{{0}} parameter(0)
  %n = {kind} {value}
  %m = {kind} add({kind} %n, {kind} %n)
  %f = f32[] convert({kind} %m)
  %b = f32[8]{{0}} broadcast(f32[] %f), dimensions={{}}
  %d = f32[8]{{0}} divide(f32[8]{{0}} %p, f32[8]{{0}} %b)
  ROOT %t = f32[8]{{0}} tanh(f32[8]{{0}} %d)
}}
"""


@pytest.mark.parametrize(("kind", "found"), [("s64[]", []), ("f32[]", ["special-scalar"])])
def test_a_count_that_begins_at_one(tmp_path, kind, found):
    first = COUNTED.format(kind=kind, type="", value="constant(1)")
    second = COUNTED.format(kind=kind, type=f", n: {kind}", value="parameter(1)")
    if kind == "f32[]":
        first, second = (
            one.replace("convert(f32[] %m)", "sine(f32[] %m)") for one in (first, second)
        )
    epochs = [[*[(20, STEP)] * 4, (30, one)] for one in (first, second, second)]
    steps = [step for epoch in epochs for step in epoch]
    assert [group.kind.id for group in problems(tmp_path, steps)] == found
