"""What each rank ran, from its records."""

from __future__ import annotations

from pathlib import Path

import pytest

from xlagraph.ranks.plans import job_of
from xlagraph.run.reader import Process, Run
from xlagraph.run.records import (
    FORMAT_VERSION,
    LIMIT,
    GraphRecord,
    NoteRecord,
    ProcessRecord,
    SyncRecord,
)


def sync(index, graphs, rank=0, outcome="hit", entry="sync"):
    kind = "step" if entry == "sync" else "value"
    return SyncRecord(
        index, index, rank, 1.0, 0.1, kind, entry, outcome, 0.0, graphs, False, (), (), (), (),
    )  # fmt: skip


def process(rank, syncs, started=1.0, notes=(), world=2, source="RANK"):
    record = ProcessRecord(
        FORMAT_VERSION, rank, world, "h", rank, started, (), 1, (), rank_source=source
    )
    graphs = tuple(GraphRecord(digest, 0, "m", 1, (), (), ()) for digest in "ABC")
    return Process(
        f"{rank}-{started}", record, tuple(syncs), graphs, (), tuple(notes), 0, ended=True
    )


class Stored(Run):
    """A run of whose graphs C was not stored, and D is in no record."""

    __slots__ = ()

    def digests(self):
        return ("A", "B", "D")


def job(*processes):
    return job_of(Stored("run", Path("run"), tuple(processes)))


def rows(found):
    return {one.rank: "".join(e.digest or "?" for e in one.plan.executed) for one in found.ranks}


def test_one_rank_is_no_job():
    assert job(process(0, [sync(0, ("A",))])) is None


def test_a_hit_without_a_name_ran_what_its_place_has_run():
    first = [sync(0, ("A",), outcome="compile"), sync(1, ()), sync(2, ())]
    second = [sync(0, ("A",), 1, "compile"), sync(1, ("B",), 1, "compile"), sync(2, (), 1)]
    assert rows(job(process(0, first), process(1, second))) == {0: "AAA", 1: "AB?"}


@pytest.mark.parametrize("digest", ["C", "D"])
def test_a_graph_that_is_not_stored_or_in_no_record_is_not_known(digest):
    found = job(process(0, [sync(0, ("A",))]), process(1, [sync(0, (digest,), 1)]))
    assert rows(found) == {0: "A", 1: "?"}


def test_what_comes_after_the_limit_is_not_held_against_a_rank():
    full = [NoteRecord(1, LIMIT, "")]
    first = process(0, [sync(0, ("A",)), sync(3, ("B",))], notes=full)
    found = job(first, process(1, [sync(0, ("A",), 1)]))
    assert rows(found) == {0: "A", 1: "A"}
    assert [one.plan.ended for one in found.ranks] == [False, True]


def test_of_a_job_that_was_restarted_the_last_run_counts():
    old = [process(rank, [sync(0, ("B",), rank)], 1.0) for rank in (0, 1)]
    new = [process(rank, [sync(0, ("A",), rank)], 9.0) for rank in (0, 1)]
    assert rows(job(*old, *new)) == {0: "A", 1: "A"}


def test_a_worker_with_its_ranks_number_does_not_replace_it():
    ranks = [process(rank, [sync(k, ("A",), rank) for k in range(3)]) for rank in (0, 1)]
    worker = process(0, [sync(0, ("B",))], 5.0)
    assert rows(job(*ranks, worker)) == {0: "AAA", 1: "AAA"}


@pytest.mark.parametrize(("world", "found"), [(0, 2), (8, 8)])
def test_how_many_ranks_there_are(world, found):
    both = [process(rank, [sync(0, ("A",), rank)], world=world) for rank in (0, 1)]
    assert job(*both).world == found
    assert job(*both).sources == ("RANK",)


def test_threads_of_one_process_are_ranks():
    syncs = [sync(0, ("A",), 0), sync(1, ("B",), 1)]
    assert rows(job(process(0, syncs))) == {0: "A", 1: "B"}
