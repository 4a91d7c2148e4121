"""A shorter batch that comes again and again is told, and is no alarm."""

from __future__ import annotations

from itertools import chain

import pytest
from written_runs import write
from written_steps import step


def rows(number, width=4, **what):
    """A step whose batch has so many examples."""
    return step(number, **what).replace(f"[{number}]{{0}}", f"[{number},{width}]{{1,0}}")


def run_of(folder, batches):
    """Steps at one line whose batches have these numbers of examples."""
    return write(folder, [(20, rows(number)) for number in batches])


def test_the_short_last_batch_of_each_epoch_is_told_and_no_alarm(tmp_path):
    run = run_of(tmp_path, [8, 8, 8, 5] * 4)
    assert not run.has_problem
    (note,) = run.verdict.notes
    assert str(note) == (
        "Since step 3: an odd batch comes again and again (s32[5,4]) in the step that "
        "ends at train.py:20 in main(); 1 compile, 0.50 s. To save it: pad it, or "
        "in training leave it out (drop_last=True)."
    )
    (group,) = [group for group in run.groups if group.meant]
    assert (group.meant, group.kind.id, group.proved) == ("odd", "input-shape", True)


@pytest.mark.parametrize(
    "batches",
    [
        [8, 8, 5] * 6,
        [5 if k in (3, 7, 12, 15, 20, 22, 28) else 8 for k in range(30)],
    ],
    ids=["of three batches", "in no order"],
)
def test_it_comes_in_whatever_order(tmp_path, batches):
    assert not run_of(tmp_path, batches).has_problem


@pytest.mark.parametrize(
    "batches",
    [
        [8, 8, 8, 5] * 3,
        [8, 8, 8, 5, *[8] * 30],
        [8, 8, 8, 5, *[8] * 10, 5, *[8] * 20],
        [*[8] * 20, *[8, 8, 5] * 4],
        [8, 8, 8, 12] * 8,
        [4, 5, 6, 7] * 8,
        [8, 8, 8, 3, 8, 8, 8, 4, 8, 8, 8, 5] * 3,
        [*[8, 8, 8, 5] * 6, 8, 8, 8, 3],
    ],
    ids=[
        "few",
        "once",
        "once again",
        "late",
        "longer",
        "counts up",
        "three",
        "another one at the end",
    ],
)
def test_what_may_still_come_or_is_no_rule_is_a_problem(tmp_path, batches):
    run = run_of(tmp_path, batches)
    assert run.has_problem
    assert {group.kind.id for group in run.problems} == {"input-shape"}


def test_another_dimension_that_is_mostly_alike_is_a_problem(tmp_path):
    widths = [(20, rows(8, width)) for width in [8, 8, 8, 6] * 8]
    assert run_of(tmp_path / "examples", [8, 8, 8, 6] * 8).has_problem is False
    assert write(tmp_path / "widths", widths).has_problem


def test_each_width_has_an_odd_batch(tmp_path):
    epoch = chain.from_iterable([(8, width)] * 3 + [(5, width)] for width in (4, 16))
    batches = list(epoch) * 4
    run = write(tmp_path, [(20, rows(number, width)) for number, width in batches])
    assert not run.has_problem


def test_a_stage_at_a_line_of_its_own_is_asked_for_itself(tmp_path):
    """The last new graph of the run came in its longer part, as the second stage began."""
    epoch = [rows(number) for number in [8, 8, 8, 5]]
    second = [text.replace("abs", "not") for text in epoch]
    run = write(tmp_path, [*((20, one) for one in epoch * 6), *((30, one) for one in second * 4)])
    assert not run.has_problem


def test_odd_batches_of_phases_are_no_phases(tmp_path):
    """Beside them a value is kept once, which is a change of its own."""
    epoch = (8, 8, 8, 5)
    steps = [*map(rows, epoch * 3), *(rows(number, more=True) for number in epoch * 7)]
    steps[21] = rows(8, kept=True)
    run = write(tmp_path, [(20, text) for text in steps])
    (phase,) = [group for group in run.groups if group.meant == "phase"]
    assert (phase.kind.id, phase.steps, phase.compiles) == ("extra-subgraph", (12,), 1)


def test_beside_a_problem_it_is_a_note(tmp_path):
    steps = [(20, rows(number)) for number in [8, 8, 8, 5] * 5]
    reads = [(15, rows(size, 2), "value") for size in (2, 3, 4, 6, 7, 9)]
    begun = [one for both in zip(reads, steps, strict=False) for one in both]
    run = write(tmp_path, begun + steps[len(reads) :])
    assert run.has_problem
    assert any("an odd batch comes again" in str(note) for note in run.verdict.notes)
