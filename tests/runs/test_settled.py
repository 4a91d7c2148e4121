"""Stages of a program whose graphs have little in common are told, and are no alarm."""

from __future__ import annotations

import pytest
from written_runs import write

from xlagraph.run.records import EARLIER_COMPILES

OPCODES = ("negate", "cosine", "sine", "tanh", "abs")


def step(stage):
    """A step that gives back what all stages do, and values that only its own has."""
    own = f"f32[8{',3' * (stage + 1)}]{{{','.join(map(str, range(stage + 1, -1, -1)))}}}"
    common = "".join(f"  %e{k + 1} = f32[8]{{0}} exponential(%e{k})\n" for k in range(12))
    return (
        f"HloModule step\n\nENTRY %main (p: f32[8]) -> (f32[8], {own}, {own}) {{\n"
        f"  %e0 = f32[8]{{0}} parameter(0)\n{common}"
        f"  %w = {own} broadcast(%e0), dimensions={{0}}\n"
        f"  %a = {own} {OPCODES[stage]}(%w)\n"
        f"  %b = {own} add(%a, %w)\n"
        f"  ROOT %t = (f32[8]{{0}}, {own}, {own}) tuple(%e12, %a, %b)\n}}\n"
    )


def explained(folder, stages, **options):
    """Steps at one line that belong to these stages."""
    return write(folder, [(20, step(stage)) for stage in stages], **options)


def test_a_stage_that_begins_once_and_stays_is_told_and_no_alarm(tmp_path):
    run = explained(tmp_path, [0] * 6 + [1] * 12)
    assert not run.has_problem
    assert str(run.verdict).startswith("Stable: 2 compiles, 1.0 s, the last in step 6; none in ")
    (note,) = run.verdict.notes
    assert str(note) == (
        "Settled since step 6: 1 compile, 0.50 s, of a graph that none like it followed; what "
        "it differs in stands in the list of causes."
    )
    (group,) = [group for group in run.groups if group.meant]
    assert str(group.title) == (
        "a graph with which a part of the program settled; what makes it differ from those before "
        "is not proved, and none was new at its place since"
    )


def test_the_first_step_of_each_turn_may_settle_in_the_second(tmp_path):
    """As the first step behind an evaluation takes in what that has left, from its second on."""
    run = explained(tmp_path, [0] * 6 + [1, 2, 2, 2] + [3, 2, 2, 2] * 4)
    assert not run.has_problem
    (group,) = [group for group in run.groups if group.meant]
    assert (group.meant, group.kind.id, group.compiles) == ("settled", "unexplained", 3)


ROUND = ((20, 0), (20, 0), (30, 1))
"""Two steps at one line and one at another, as a critic's and a generator's."""
LATER = ((20, 2), (20, 2), (30, 3))


@pytest.mark.parametrize(
    ("rounds", "settled"),
    [([ROUND] * 5 + [LATER] * 4, 2), ([ROUND] * 5 + [LATER] * 4 + [ROUND], 0)],
    ids=["stays", "comes back"],
)
def test_where_all_places_go_round_together_a_stage_is_of_all_their_steps(
    tmp_path, rounds, settled
):
    steps = [(line, step(stage)) for one in rounds for line, stage in one]
    groups = write(tmp_path, steps).groups
    assert sum(group.compiles for group in groups if group.meant == "settled") == settled


@pytest.mark.parametrize(
    "stages",
    [
        [0] * 6 + [1] + [0] * 12,
        [0] * 14 + [1] * 8 + [0] * 5,
        [0] * 6 + [1] * 6,
        [0] * 8 + [1] * 8 + [2] * 8 + [3] * 8 + [4] * 12,
        [0] * 5 + [1, 1, 0, 1, 0, 0, 1, 1, 1, 0, 0],
    ],
    ids=["once", "comes back", "ends soon", "many", "no order"],
)
def test_what_is_no_stage_is_a_problem(tmp_path, stages):
    run = explained(tmp_path, stages)
    assert run.has_problem
    assert sum(group.compiles for group in run.problems) >= 1


def test_where_graphs_from_before_the_capture_ran_nothing_is_known_to_settle(tmp_path):
    assert explained(tmp_path, [0] * 6 + [1] * 12, notes=(EARLIER_COMPILES,)).has_problem


@pytest.mark.parametrize(("begin", "first"), [((1,), 1), ((), 0)], ids=["loader", "none"])
def test_a_loop_that_begins_with_its_sync_begins_in_the_step_behind_it(tmp_path, begin, first):
    tiny = "HloModule m\n\nENTRY %e (p: f32[]) -> f32[] {\n  ROOT %p = f32[] parameter(0)\n}\n"
    steps = [(20, tiny) for _ in begin] + [(20, step(0))] * 5
    assert write(tmp_path, steps).first_step == first
