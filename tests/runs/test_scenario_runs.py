"""Captures of the scenario programs: the cause named is the true one, with its line and proof."""

from __future__ import annotations

import pytest
from real_modules import explained_run
from repository import ROOT, script

PAIRS = ROOT / "fixtures" / "pairs"


scenarios = script("benchmarks/scenarios.py")
NAMES = sorted(folder.name for folder in PAIRS.iterdir())


@pytest.mark.parametrize("name", NAMES)
def test_names_the_true_cause(name):
    truth = scenarios.read_truth(scenarios.PROGRAMS / f"{name}.py")
    row = scenarios.judge(truth, explained_run(PAIRS / name))
    assert row.reported == row.truth or set(row.reported.split(" + ")) == set(truth.kinds)
    assert row.right, row


def test_every_program_has_a_capture():
    programs = {path.stem for path in scenarios.PROGRAMS.glob("[!_]*.py")}
    assert programs - set(NAMES) == {"bucket_carry", "bucket_fixed"}  # in fixtures/runs


@pytest.mark.parametrize(("run", "kinds"), [("carry", {"bucket-carry"}), ("fixed", set())])
def test_buckets(run, kinds):
    explained = explained_run(ROOT / "fixtures" / "runs" / run)
    assert {group.kind.id for group in explained.groups if not group.expected} == kinds
    assert all(group.proved for group in explained.groups if not group.expected)


def test_growth_is_one_cause_for_all_its_graphs():
    explained = explained_run(PAIRS / "leak_running_loss")
    (problem,) = [group for group in explained.groups if not group.expected]
    assert problem.compiles == 7
    assert "grows with every step" in str(problem.title)
    assert str(explained.verdict).startswith("7 compiles beyond warm-up")


def test_graphs_that_take_turns_are_recognized():
    assert len(explained_run(PAIRS / "autocast_toggle").alternating) == 2
    assert explained_run(PAIRS / "stable").alternating == ()


def test_state_of_the_first_step_is_warm_up_and_late_state_is_not():
    first = explained_run(PAIRS / "momentum_first_step")
    assert {g.kind.id for g in first.groups} == {"first-graph", "optimizer-state"}
    assert all(group.expected for group in first.groups)
    late = explained_run(PAIRS / "momentum_late")
    assert {g.kind.id for g in late.groups if not g.expected} == {"optimizer-state"}


def test_ranks_that_differ_are_compared_with_each_other():
    explained = explained_run(PAIRS / "two_ranks")
    other = next(node for node in explained.graphs if node.rank == 1)
    assert other.why_nearest == "rank 0 ran it in the same step"
    assert not other.warm_up


def test_several_causes_have_their_shares():
    explained = explained_run(PAIRS / "two_causes")
    both = [
        n.explanation for n in explained.graphs if n.explanation and len(n.explanation.causes) > 1
    ]
    for explanation in both:
        assert 0.9 <= sum(cause.share for cause in explanation.causes) <= 1.1
        assert all(cause.share > 0 for cause in explanation.causes)


def test_a_value_read_in_the_middle_is_told_with_its_call_site():
    explained = explained_run(PAIRS / "print_tensor")
    (problem,) = [group for group in explained.groups if not group.expected]
    assert problem.kind.id == "early-execution"
    assert "print_tensor.py:" in str(problem.title)


@pytest.mark.parametrize("name", NAMES)
def test_sentences_call_the_graphs_by_their_letters(name):
    """No placeholder of a detector is left: those are not printable."""
    explained = explained_run(PAIRS / name)
    for node in explained.graphs:
        for cause in node.explanation.causes if node.explanation else ():
            text = "\n".join(
                [str(cause.title), str(cause.proof), *(str(e.text) for e in cause.evidence)]
            )
            assert text.replace("\n", "").isprintable()
        if node.explanation:
            assert str(node.explanation.verdict).replace("\n", "").isprintable()
