"""What a job's graphs are told to be does not depend on which of its ranks was quicker."""

from __future__ import annotations

from dataclasses import replace
from functools import cache

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from real_modules import FIXTURES

from xlagraph.run.reader import Run, read_run
from xlagraph.runs.explain import explain_run
from xlagraph.runs.steps.history import history_of

PAIRS = FIXTURES / "pairs"
ALL = 1 << 30


@cache
def captured(name):
    return read_run(PAIRS / name)


def as_rank(process, rank, steps=ALL, late=lambda _: 0.0):
    """What a process recorded, as if it had been a rank of a job, later by so much at each sync."""
    syncs = tuple(
        replace(sync, rank=rank, time=sync.time + late(sync.index))
        for sync in process.syncs
        if sync.step < steps
    )
    return replace(
        process,
        file=f"records-{rank}-host-{rank}.jsonl",
        record=replace(process.record, rank=rank, world_size=2),
        syncs=syncs,
        graphs=tuple(one for one in process.graphs if one.sync <= syncs[-1].index),
    )


def job(name, *ranks):
    """A run of ranks, each by its number of steps and by how late each of its syncs is."""
    run = captured(name)
    (process,) = run.processes
    ranked = (as_rank(process, rank, *more) for rank, more in enumerate(ranks))
    return explain_run(Run(run.name, run.path, tuple(ranked)))


def told(explained):
    """All but times: what is said of each graph, and of each group."""
    nodes = [
        (one.letter, one.digest, one.rank, one.step, one.nearest, one.warm_up, one.meant)
        for one in explained.graphs
    ]
    groups = {
        (one.kind.id, str(one.title), one.graphs, one.compiles, one.expected, str(one.place.line))
        for one in explained.groups
    }
    return nodes, groups, explained.has_problem, explained.verdict.fix


def judged(explained):
    return {(one.digest, one.warm_up, one.meant) for one in explained.graphs}


LATE = st.lists(st.floats(-5, 5), min_size=1, max_size=20)


@pytest.mark.parametrize("name", ["momentum_first_step", "momentum_late", "last_batch"])
@settings(max_examples=6)
@given(first=LATE, second=LATE)
def test_clocks_of_ranks_change_nothing(name, first, second):
    usual = job(name, (), ())
    late = [lambda k, by=by: by[k % len(by)] for by in (first, second)]
    assert told(job(name, *((ALL, one) for one in late))) == told(usual)


def test_state_that_the_other_rank_brought_first_is_warm_up():
    """Rank 1 was the slower in step 0 and the quicker in step 1."""
    late = [1.0, -1000.0]
    explained = job("momentum_first_step", (), (ALL, lambda k: late[min(k, 1)]))
    assert not explained.has_problem
    assert {node.rank for node in explained.graphs} == {0}
    assert job("momentum_late", (), (ALL, lambda k: late[min(k, 1)])).has_problem


@pytest.mark.parametrize(
    ("name", "steps"),
    [("freeze_one_of_many", 2), ("freeze_one_of_many", 5), ("two_heads", 2), ("scaler_skips", 7)],
)
@pytest.mark.parametrize("is_first", [True, False])
def test_a_rank_that_ended_early_changes_nothing(name, steps, is_first):
    ranks = [(steps,), ()] if is_first else [(), (steps,)]
    assert judged(job(name, *ranks)) == judged(explain_run(captured(name)))


def test_of_ranks_that_ran_as_much_the_lowest_tells():
    explained = job("last_batch", (), ())
    assert {node.rank for node in explained.graphs} == {0}
    run = captured("last_batch")
    (process,) = run.processes
    ended = Run(run.name, run.path, (as_rank(process, 0, 2), as_rank(process, 1)))
    assert history_of(ended).leading == {1: 0, 0: 1}


def test_what_ranks_differ_in_is_no_warm_up():
    """State that rank 1 alone brings while the other goes on as it was, though it ran that too."""
    (process,) = captured("momentum_first_step").processes
    first, *later = as_rank(process, 0).syncs
    again = tuple(
        replace(one, outcome="hit", graphs=first.graphs, compile_seconds=0.0) for one in later
    )
    without = replace(as_rank(process, 0), syncs=(first, *again), graphs=process.graphs[:1])
    run = captured("momentum_first_step")
    explained = explain_run(Run(run.name, run.path, (without, as_rank(process, 1))))
    (problem,) = [node for node in explained.graphs if not node.warm_up]
    assert (problem.rank, problem.why_nearest) == (1, "rank 0 ran it in the same step")
