"""Sizes that each hold for long and do not come back are stages; others are a problem."""

from __future__ import annotations

from itertools import chain, repeat

import pytest
from written_runs import write


def step(size, *, adds=False, rows=4):
    """A step over images, with something of one size beside it; `adds`: it does a little more."""
    image = f"f32[{rows},{size},{size}]{{2,1,0}}"
    beside = "".join(f"  %e{k + 1} = f32[8]{{0}} exponential(%e{k})\n" for k in range(12))
    more = f"  %s = {image} sine(%m)\n  %r = {image} add(%m, %s)\n" if adds else ""
    return (
        f"HloModule step\n\nENTRY %main (p: {image[:-7]}, e: f32[8]) -> ({image[:-7]}, f32[8]) {{\n"
        f"  %p = {image} parameter(0)\n  %e0 = f32[8]{{0}} parameter(1)\n{beside}"
        f"  %n = {image} negate(%p)\n  %m = {image} multiply(%n, %p)\n{more}"
        f"  %a = {image} abs({'%r' if adds else '%m'})\n"
        f"  ROOT %t = ({image}, f32[8]{{0}}) tuple(%a, %e12)\n}}\n"
    )


def stages(*lengths):
    """The size of each step; of each stage its size and how many steps it has."""
    return list(chain.from_iterable(repeat(size, number) for size, number in lengths))


def explained(folder, sizes, *, named=lambda _: True):
    """Steps at one line of these sizes; `named`: by its number whether it is known what one ran."""
    steps = list(enumerate(sizes))
    new = {sizes.index(size) for size in sizes}
    return write(folder, [(20, step(s) if k in new or named(k) else None) for k, s in steps])


def test_stages_of_a_program_are_told_and_no_alarm(tmp_path):
    run = explained(tmp_path, stages((16, 10), (24, 10), (32, 12)))
    assert not run.has_problem
    assert str(run.verdict).startswith("Stable: 3 compiles, 1.5 s, the last in step 20; ")
    (note,) = run.verdict.notes
    assert str(note) == (
        "Changed in steps 10, 20 and stayed so: an input has another size in each of 3 stages "
        "(f32[4,16,16], f32[4,24,24], f32[4,32,32]) in the step that ends at train.py:20 in "
        "main(); 2 compiles, 1.0 s."
    )
    (group,) = [group for group in run.groups if group.meant]
    assert (group.meant, group.kind.id, group.proved) == ("stages", "input-shape", True)


def test_a_stage_may_have_several_graphs(tmp_path):
    """Of steps in turn, every other of which does more."""
    sizes = stages((16, 8), (24, 8), (32, 8))
    plan = [(20, step(size, adds=adds)) for size in sizes for adds in (False, True)]
    run = write(tmp_path, plan)
    assert not run.has_problem
    (group,) = [group for group in run.groups if group.meant == "stages"]
    assert group.steps == (16, 17, 32, 33)


def test_hits_without_names_do_not_speak_against_stages_that_are_seen(tmp_path):
    sizes = stages((16, 10), (24, 10), (32, 12))
    assert not explained(tmp_path / "some", sizes, named=lambda k: k % 10 < 4).has_problem
    assert explained(tmp_path / "none", sizes, named=lambda k: k < 10).has_problem


@pytest.mark.parametrize(
    "sizes",
    [
        stages((16, 12), (8, 1)) * 3,
        stages((16, 10), (24, 10), (32, 10), (16, 10)),
        stages((16, 10), (24, 10), (32, 4)),
        stages((16, 10), (24, 12), (32, 10)),
        stages((16, 6), (24, 8)),
        stages(*((size, 9) for size in (16, 20, 24, 28, 32))),
        stages((16, 10), (24, 5), (32, 5), (24, 5), (32, 5)),
    ],
    ids=[
        "an odd batch",
        "comes back",
        "the last is just begun",
        "a shorter one at last",
        "short",
        "many",
        "in turn",
    ],
)
def test_other_sizes_are_a_problem(tmp_path, sizes):
    (problem, *_) = explained(tmp_path, sizes).problems
    assert problem.kind.id == "input-shape"
    assert problem.compiles == len(set(sizes)) - 1


def test_an_odd_batch_is_none_where_later_hits_have_no_names(tmp_path):
    """It compiled once, in the end of an epoch; what the steps behind it ran is not known."""
    sizes = stages((16, 12), (8, 1)) * 3
    assert explained(tmp_path, sizes, named=lambda k: k < 12).has_problem


def test_more_examples_are_no_stage(tmp_path):
    rows = stages((4, 10), (8, 12))
    assert write(tmp_path, [(20, step(16, rows=one)) for one in rows]).has_problem


def evaluated(folder, *sizes):
    """Three stages, each with an evaluation of two steps behind it, in one of these sizes."""
    plan = []
    for trained, size in zip((16, 24, 32), sizes, strict=True):
        plan += [(20, step(trained))] * 9 + [(30, step(size, adds=True))] * 2
    return write(folder, plan)


def test_an_evaluation_has_the_stages_of_its_training(tmp_path):
    run = evaluated(tmp_path, 16, 24, 32)
    assert not run.has_problem
    notes = [str(note) for note in run.verdict.notes]
    assert [note.partition(":")[0] for note in notes] == [
        "Changed in steps 11, 22 and stayed so",
        "Changed in steps 20, 31 and stayed so",
    ]
    assert all("an input has another size in each of 3 stages" in note for note in notes)


def test_an_evaluation_whose_size_comes_back_is_said_to_take_turns(tmp_path):
    run = evaluated(tmp_path, 16, 24, 16)
    assert not run.has_problem
    assert [group.meant for group in run.groups if group.meant] == ["stages", "sizes"]


def test_an_evaluation_in_sizes_that_were_not_trained_is_a_problem(tmp_path):
    assert evaluated(tmp_path, 16, 20, 28).has_problem
