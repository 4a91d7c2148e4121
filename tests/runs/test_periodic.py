"""What comes in every n-th step is by design, if it is no value that is kept, nor still comes."""

from __future__ import annotations

import pytest
from written_runs import write
from written_steps import step, window

EVERY = (3, 7, 11, 15, 19, 23, 27)


def run_of(folder, special, *, sizes=(8,), steps=30, **what):
    """Steps at one line, of which the ``special`` ones have something more."""
    what = what or {"more": True}
    modules = [step(sizes[k % len(sizes)], **(what if k in special else {})) for k in range(steps)]
    return write(folder, [(20, module) for module in modules])


def test_a_piece_in_every_fourth_step_is_told_and_no_alarm(tmp_path):
    run = run_of(tmp_path, EVERY)
    assert not run.has_problem
    (note,) = run.verdict.notes
    assert str(note).startswith("In a fixed order since step 3: a piece is computed in some steps")
    (group,) = [group for group in run.groups if group.meant]
    assert (group.meant, group.kind.id, group.compiles) == ("rhythm", "extra-subgraph", 1)


@pytest.mark.parametrize(
    "special",
    [(3, 7, 12, 15, 20, 22, 28), EVERY[:-1], (16, 20, 24, 28), (3, 12, 21)],
    ids=["at random", "not to the end", "late", "too few"],
)
def test_other_steps_are_no_rhythm(special, tmp_path):
    run = run_of(tmp_path, special)
    (group,) = [group for group in run.groups if group.kind.id == "extra-subgraph"]
    assert (group.meant or "problem") == ("problem" if special[0] > 15 else "early")


def test_a_value_kept_in_every_fourth_step_is_no_rhythm(tmp_path):
    (group,) = [group for group in run_of(tmp_path, EVERY, kept=True).groups if group.meant]
    assert (group.meant, group.kind.id, group.compiles) == ("early", "live-tensor", 1)


def test_sizes_in_turn_beside_it_are_by_design_too(tmp_path):
    """Each fifth step has the piece and each second one the other size: four graphs."""
    run = run_of(tmp_path, range(4, 36, 5), sizes=(8, 12), steps=36)
    assert not run.has_problem
    assert {group.meant: group.compiles for group in run.groups if group.meant} == {
        "rhythm": 1,
        "sizes": 2,
    }


def test_sizes_that_keep_coming_beside_it_are_a_problem(tmp_path):
    sizes = [8 + (k * k) % 97 for k in range(36)]
    run = run_of(tmp_path, range(4, 36, 5), sizes=sizes, steps=36)
    assert run.has_problem
    assert not any(group.meant for group in run.groups)


@pytest.mark.parametrize(("windows", "is_problem"), [(3, False), (7, True)])
def test_turns_of_a_loop_that_make_the_graph_longer_are_no_parts(windows, is_problem, tmp_path):
    """Every sequence begins anew, and each of its windows goes back through those before it."""
    steps = [(20, window(k % windows)) for k in range(8 * windows)]
    assert write(tmp_path, steps).has_problem is is_problem


def summed(size=8, *, begins=False, first=False):
    """A step that adds to a sum, which it may begin with zeros; the first begins an average too."""
    a, o = f"s32[{size}]{{0}}", "s32[4]{0}"
    zeros = f"{o} broadcast(s32[] %z), dimensions={{}}"
    lines = [
        f"%p = {a} parameter(0)",
        *(["%z = s32[] constant(0)"] if begins or first else ()),
        f"%m = {zeros if first else o + ' parameter(1)'}",
        f"%s = {zeros if begins else o + f' parameter({2 - first})'}",
        f"%n = {a} negate({a} %p)",
        f"%c = {o} slice({a} %n), slice={{[0:4]}}",
        f"%d = {o} add({o} %s, {o} %c)",
        f"%x = {o} maximum({o} %m, {o} %c)",
        f"%y = {o} abs({o} %x)",
        f"%e = {a} abs({a} %n)",
        f"ROOT %t = ({o}, {o}, {a}) tuple({o} %d, {o} %y, {a} %e)",
    ]
    inputs = f"p: {a}{'' if first else f', m: {o}'}{'' if begins else f', s: {o}'}"
    head = f"HloModule step\n\nENTRY %main ({inputs}) -> ({o}, {o}, {a}) {{"
    return "\n  ".join([head, *lines]) + "\n}\n"


def epochs(folder, begins, *, sizes=(8,), steps=36):
    """Steps of which some begin a sum."""
    drawn = [sizes[k * k % 7 % len(sizes)] for k in range(steps)]
    modules = [summed(size, begins=k in begins, first=k == 0) for k, size in enumerate(drawn)]
    return write(folder, [(20, module) for module in modules])


def test_a_sum_that_each_epoch_begins_is_told_and_no_alarm(tmp_path):
    """In buckets it has a graph for each size that an epoch begins with."""
    assert not epochs(tmp_path / "one", (0, 15, 30), steps=45).has_problem
    run = epochs(tmp_path / "several", (0, 15, 30), sizes=(8, 12, 32), steps=45)
    assert not run.has_problem
    notes = "".join(map(str, run.verdict.notes))
    assert "In a fixed order since step 15: the graph makes a tensor's first value" in notes


@pytest.mark.parametrize(
    ("begins", "steps"),
    [((0, 4, 8), 9), ((0, 14, 20), 29), ((0, 11, 24), 26), ((0, 20), 30)],
    ids=["short", "not as far from the first", "not equally far", "once"],
)
def test_a_state_made_anew_at_other_times_is_a_problem(begins, steps, tmp_path):
    run = epochs(tmp_path, begins, steps=steps)
    assert {group.kind.id for group in run.problems} == {"initial-state"}
