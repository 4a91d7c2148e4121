"""What compiling costs a job of several ranks."""

from __future__ import annotations

import pytest

from xlagraph.ranks.cost import job_cost
from xlagraph.ranks.model import Plan
from xlagraph.ranks.plans import Job, RankRecords
from xlagraph.run.reader import Process
from xlagraph.run.records import FORMAT_VERSION, ProcessRecord, SyncRecord


def sync(index, time, seconds, graph="A", outcome="compile"):
    return SyncRecord(
        index, index, 0, time, seconds, "step", "sync", outcome, seconds, (graph,), False,
        (), (), (), (),
    )  # fmt: skip


def job(*rows, hosts=()):
    ranks = []
    for rank, syncs in enumerate(rows):
        host = hosts[rank] if hosts else "h"
        record = ProcessRecord(FORMAT_VERSION, rank, len(rows), host, rank, 1.0, (), 1, ())
        process = Process(f"{rank}", record, tuple(syncs), (), (), (), 0)
        ranks.append(RankRecords(rank, process, tuple(syncs), Plan(rank, (), ended=True)))
    return Job(tuple(ranks), len(rows), ("RANK",), began_late=False)


def test_ranks_that_compile_at_once_cost_the_time_of_one():
    cost = job_cost(job([sync(0, 10.0, 4.0)], [sync(0, 10.5, 4.0)], [sync(0, 10.0, 3.0)]))
    assert cost.seconds == pytest.approx(4.5)
    assert cost.spent == pytest.approx(11.0)
    assert cost.by_clock
    assert not cost.stragglers
    assert not cost.outliers


def test_ranks_that_compile_in_turns_cost_all_their_times():
    rows = [[sync(0, 10.0, 4.0), sync(1, 20.0, 2.0)], [sync(0, 10.0, 4.0)]]
    cost = job_cost(job(*rows))
    assert cost.seconds == pytest.approx(6.0)
    (late,) = cost.stragglers
    assert (late.step, late.ranks, late.seconds) == (1, (0,), 2.0)


def test_clocks_of_several_hosts_are_not_compared():
    rows = [[sync(0, 10.0, 4.0)], [sync(0, 9999.0, 5.0)]]
    cost = job_cost(job(*rows, hosts=("a", "b")))
    assert (cost.seconds, cost.by_clock) == (5.0, False)


def test_one_rank_that_takes_much_longer():
    cost = job_cost(job(*([sync(0, 0.0, 2.0)] for _ in range(5)), [sync(0, 0.0, 9.0)]))
    (one,) = cost.outliers
    assert (one.rank, one.seconds, one.usual) == (5, 9.0, 2.0)


def test_a_graph_that_only_some_had_in_the_cache():
    cost = job_cost(job([sync(0, 0.0, 2.0)], [sync(0, 0.0, 0.0, outcome="hit")]))
    (one,) = cost.missed
    assert (one.compiled, one.loaded) == ((0,), (1,))
