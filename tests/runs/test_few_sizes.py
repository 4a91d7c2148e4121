"""Sizes that are few and come again are a choice; others that come back are not."""

from __future__ import annotations

import random

import pytest
from written_runs import write

draw = random.Random(1)
BUCKETS = [8, 12, 32, *(draw.choice((8, 12, 32)) for _ in range(30))]


def step(size):
    return (
        f"HloModule step\n\nENTRY %main (p: s32[{size}]) -> s32[{size}] {{\n"
        f"  %p = s32[{size}]{{0}} parameter(0)\n"
        f"  %n = s32[{size}]{{0}} negate(s32[{size}]{{0}} %p)\n"
        f"  ROOT %a = s32[{size}]{{0}} abs(s32[{size}]{{0}} %n)\n}}\n"
    )


def explained(folder, sizes):
    """Steps at one line whose input has these sizes."""
    return write(folder, [(20, step(size)) for size in sizes])


def test_length_buckets_are_told_and_no_alarm(tmp_path):
    run = explained(tmp_path, BUCKETS)
    assert not run.has_problem
    assert str(run.verdict).startswith("Stable: 3 compiles, 1.5 s, the last in step 2; ")
    (note,) = run.verdict.notes
    assert str(note) == (
        "In turn since steps 1, 2: an input comes in 3 sizes (s32[8], s32[12], s32[32]) in the "
        "step that ends at train.py:20 in main(); 2 compiles, 1.0 s. Nothing to do where the "
        "sizes are a choice, such as length buckets."
    )
    (group,) = [group for group in run.groups if group.meant]
    assert (group.meant, group.kind.id, group.proved) == ("sizes", "input-shape", True)


def test_hits_that_nobody_named_do_not_speak_against_it(tmp_path):
    steps = [(20, step(size)) for size in BUCKETS[:15]] + [(20, None)] * 18
    assert not write(tmp_path, steps).has_problem


@pytest.mark.parametrize(("second", "alarms"), [(16, False), (12, True)])
def test_powers_of_two_are_buckets_as_soon_as_as_many_steps_went_by(tmp_path, second, alarms):
    """Prompts: the third size came in the fifth of ten, and nobody named the hits."""
    sizes = [8, second, None, None, 32, *[None] * 5]
    run = write(tmp_path, [(20, step(size) if size else None) for size in sizes])
    assert run.has_problem is alarms


def late(size, *, named):
    """Two sizes in turn, and in step 10 a third; behind it hits that have a name, or have none."""
    steps = [(20, step((12, 32)[k % 2])) for k in range(10)] + [(20, step(size))]
    hits = [(20, step((12, 32, size)[k % 3]) if named else None) for k in range(16)]
    return [*steps, *hits]


@pytest.mark.parametrize("named", [True, False], ids=["named", "without names"])
def test_a_size_that_comes_late_is_no_alarm_where_none_is_new_for_long(tmp_path, named):
    run = write(tmp_path, late(8, named=named))
    assert not run.has_problem
    (note,) = run.verdict.notes
    assert str(note).startswith(
        "In turn since steps 1, 10: an input comes in 3 sizes (s32[8], s32[12], s32[32]) in "
    )
    (group,) = [group for group in run.groups if group.meant]
    known = "each of which ran again" if named else "and no size was new after them"
    assert str(group.title).endswith(f", in turn: 2 more graphs, {known}")


def test_a_late_size_is_a_problem_while_another_may_come(tmp_path):
    """Ten steps more would have brought two new sizes at the pace of the first: no more is seen."""
    assert write(tmp_path, late(8, named=True)[:21]).has_problem


def test_sizes_that_only_go_up_have_to_be_known_to_come_back(tmp_path):
    """Each length is hit for a while before the next one, as of something that grows."""
    growing = [size for size, times in ((8, 2), (11, 4), (17, 9)) for _ in range(times)]
    steps = [(20, step(size)) for size in growing] + [(20, None)] * 40
    (problem, *_) = write(tmp_path / "up", steps[:16]).problems
    assert (problem.kind.id, problem.compiles) == ("input-shape", 2)
    back = [(20, step(size)) for size in (17, 8, 11) * 3]
    assert not write(tmp_path / "back", [*steps[:15], *back, *steps[15:]]).has_problem


def test_buckets_may_be_equally_far_apart(tmp_path):
    sizes = [8, 16, 24, *(draw.choice((8, 16, 24)) for _ in range(20))]
    assert not explained(tmp_path, sizes).has_problem


@pytest.mark.parametrize(("sizes", "is_problem"), [((8, 16, 32), False), ((8, 12, 32), True)])
def test_powers_of_two_are_buckets_after_fewer_steps(tmp_path, sizes, is_problem):
    steps = [*((20, step(size)) for size in sizes), *[(20, None)] * 3]
    assert write(tmp_path, steps).has_problem == is_problem


@pytest.mark.parametrize(
    "sizes",
    [
        [8] * 10 + [12, 32] * 10,
        [8, 12, 32, *[8, 12] * 15],
        [4, 5, 6, *[8] * 30],
        [8] * 3 + [16] * 11,
        [2, 3, 5, 8, 13, 21, 34, 55, 89] * 5,
        [4, 5, 6, 7] * 8,
        [4, 4, 4, 5, 5, 5, 6, 6, 6] * 4,
        [8, 12, 32] * 2,
    ],
    ids=[
        "late",
        "one never again",
        "until a buffer is full",
        "doubled for good",
        "many",
        "counts up",
        "counts up slowly",
        "a short run",
    ],
)
def test_other_sizes_are_a_problem(tmp_path, sizes):
    run = explained(tmp_path, sizes)
    problems = [group for group in run.groups if not group.expected]
    assert {group.kind.id for group in problems} == {"input-shape"}
    assert sum(group.compiles for group in problems) == len(set(sizes)) - 1


def evaluation(size, *, table=32):
    """A step of another kind, with a part of a table that is as long as the longest input."""
    cut = f"%c = f32[{size}]{{0}} slice(f32[{table}]{{0}} %q), slice={{[0:{size}]}}"
    part = "%q" if size == table else "%c"
    return (
        f"HloModule evaluation\n\nENTRY %main (p: f32[{size}], q: f32[{table}]) -> f32[{size}] {{\n"
        f"  %p = f32[{size}]{{0}} parameter(0)\n  %q = f32[{table}]{{0}} parameter(1)\n"
        + (f"  {cut}\n" if size != table else "")
        + f"  %s = f32[{size}]{{0}} sine(f32[{size}]{{0}} %p)\n"
        f"  %m = f32[{size}]{{0}} multiply(f32[{size}]{{0}} %s, f32[{size}]{{0}} {part})\n"
        f"  ROOT %t = f32[{size}]{{0}} tanh(f32[{size}]{{0}} %m)\n}}\n"
    )


def evaluated(folder, training, *evaluations):
    """Steps of these sizes, and behind them each time steps of others at a line of their own."""
    steps = [(20, step(size)) for size in training]
    for sizes in evaluations:
        steps += [*((30, evaluation(size)) for size in sizes), *((20, step(8)),) * 2]
    return write(folder, steps)


def test_sizes_that_training_has_too_are_no_alarm_in_an_evaluation(tmp_path):
    """One is most of it, and the largest needs no slice of the table."""
    run = evaluated(tmp_path, BUCKETS, (32, 32, 12, 32, 8), (32, 32, 32))
    assert not run.has_problem
    notes = sorted(map(str, run.verdict.notes))
    assert [note.partition(":")[0] for note in notes] == [
        "In turn since steps 1, 2",
        "In turn since steps 35, 37",
    ]
    assert "an input comes in 3 sizes (f32[8], f32[12], f32[32]) in the step that" in notes[1]


@pytest.mark.parametrize(
    ("training", "sizes"),
    [(BUCKETS, (32, 32, 5)), ([8] * 30, (32, 32, 8)), ([8, 8, 5] * 12, (8, 8, 5))],
    ids=["a size of its own", "one size in training", "an odd batch in both"],
)
def test_a_size_is_not_known_from_steps_that_never_settled_with_it(tmp_path, training, sizes):
    run = evaluated(tmp_path, training, sizes, sizes)
    problems = [group for group in run.groups if not group.expected]
    assert {group.kind.id for group in problems} == {"input-shape"}
    assert any(step > len(training) for group in problems for step in group.steps)


def layers(size, *, beside=0):
    """Twelve operations on an input, others on one of the same size, and some of another kind."""
    a, q = f"s32[{size}]{{0}}", "s32[4]{0}"
    kinds = ["negate"] * 12 + ["not"] * beside
    lines = [
        f"%x0 = {a} parameter(0)",
        *(f"%x{k + 1} = {a} {kind}({a} %x{k})" for k, kind in enumerate(kinds)),
        f"%y0 = {q} parameter(1)",
        *(f"%y{k + 1} = {q} abs({q} %y{k})" for k in range(24)),
        f"%s = {q} slice({a} %x{len(kinds)}), slice={{[0:4]}}",
        f"ROOT %t = {q} multiply({q} %s, {q} %y24)",
    ]
    head = f"HloModule step\n\nENTRY %main (p: {a}, q: {q}) -> {q} {{"
    return "\n  ".join([head, *lines]) + "\n}\n"


@pytest.mark.parametrize(("beside", "is_problem"), [(1, False), (6, True)])
def test_little_may_come_beside_a_size(beside, is_problem, tmp_path):
    """A mean over one element is written in another way; a branch of its own is no size."""
    steps = [(20, layers(size, beside=beside if size == 8 else 0)) for size in BUCKETS[1:]]
    assert write(tmp_path, steps).has_problem is is_problem


def test_sizes_that_ran_before_the_loop_are_not_asked_what_they_were_there(tmp_path):
    warm_up = [(10, step(size)) for size in (16, 8, 12)]
    loop = [(20, step(size)) for size in (12, 8, 32, *BUCKETS[3:])]
    assert not write(tmp_path, [*warm_up, *loop]).has_problem


FOUR = [8, 12, 20, 32, *(draw.choice((8, 12, 20, 32)) for _ in range(30))]


def in_stage(size):
    """A step whose loss has another term, as in a second stage of the program."""
    square = f"  %m = s32[{size}]{{0}} multiply(s32[{size}]{{0}} %n, s32[{size}]{{0}} %n)\n"
    text = step(size).replace("  ROOT", f"{square}  ROOT")
    return text.replace(f"abs(s32[{size}]{{0}} %n)", f"abs(s32[{size}]{{0}} %m)")


def test_sizes_come_again_in_each_stage_of_a_program(tmp_path):
    stages = [(20, step(size)) for size in FOUR] + [(20, in_stage(size)) for size in FOUR]
    run = write(tmp_path / "two", stages)
    assert not run.has_problem
    (group,) = [group for group in run.groups if group.meant == "sizes"]
    assert group.compiles == 6
    unnamed = stages[: len(FOUR) + 12] + [(20, None)] * 24
    assert not write(tmp_path / "unnamed", unnamed).has_problem


def test_a_stage_whose_sizes_go_up_is_a_problem_behind_one_of_few_sizes(tmp_path):
    longer = [in_stage(36 + 4 * (k // 3)) for k in range(30)]
    run = write(tmp_path, [(20, step(size)) for size in FOUR] + [(20, one) for one in longer])
    (problem, *_) = run.problems
    assert (problem.kind.id, problem.compiles) == ("input-shape", 10)


def test_terms_that_come_and_go_are_no_stages(tmp_path):
    steps = [(step, in_stage)[k // 3 % 2](size) for k, size in enumerate(FOUR * 2)]
    assert write(tmp_path, [(20, one) for one in steps]).has_problem


TWICE = [12, 8, *(8, 8, 12, 8, 8, 8, 12, 12, 8, 8, 8, 12, 12, 8, 8, 8, 12, 8, 8, 8, 12)]
"""Two sizes, most of one, in no order: of the other sometimes two in a row."""


@pytest.mark.parametrize(("sizes", "is_problem"), [(TWICE, False), ([8, 8, 12] * 8, True)])
def test_odd_batches_do_not_come_twice_in_a_row(tmp_path, sizes, is_problem):
    assert explained(tmp_path, sizes).has_problem is is_problem


SOME = ("abs", "tanh", "cosine", "floor", "ceil", "sign", "exponential")


def begun(size, *, first):
    """A step that adds to a sum, which the first one of an epoch makes of 0."""
    taken, start = ("", "constant(0)") if first else (", s: f32[]", "parameter(1)")
    values = f"f32[{size}]{{0}}"
    lines = (
        f"%p = {values} parameter(0)",
        f"%s = f32[] {start}",
        f"%x = {values} sine({values} %p)",
        *(f"%x{k} = {values} {op}({values} %x{k - 1 or ''})" for k, op in enumerate(SOME, 1)),
        f"%n = {values} negate({values} %x{len(SOME)})",
        f"%c = f32[1]{{0}} slice({values} %n), slice={{[0:1]}}",
        "%f = f32[] reshape(f32[1]{0} %c)",
        "%a = f32[] add(f32[] %s, f32[] %f)",
        f"ROOT %t = (f32[], {values}) tuple(f32[] %a, {values} %n)",
    )
    head = f"HloModule step\n\nENTRY %main (p: f32[{size}]{taken}) -> (f32[], f32[{size}]) {{"
    return "\n  ".join((head, *lines)) + "\n}\n"


def test_the_first_step_of_an_epoch_is_no_size_of_its_own(tmp_path):
    """Its sum begins with 0, and it comes in one of the sizes that there are."""
    draw_here = random.Random(3)
    sizes = [8, 12, 32, *(draw_here.choice((8, 12, 32)) for _ in range(45))]
    firsts = {0: 8, 6: 12, 12: 8, 18: 12, 24: 12, 30: 8, 36: 12}
    steps = [(20, begun(firsts.get(k, size), first=k in firsts)) for k, size in enumerate(sizes)]
    run = write(tmp_path, steps)
    assert not run.has_problem
    assert {group.meant for group in run.groups if group.meant} >= {"sizes"}
