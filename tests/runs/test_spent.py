"""Time on the clock and time of all ranks."""

from __future__ import annotations

from types import SimpleNamespace
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st
from real_modules import FIXTURES, explained_run

from xlagraph.runs.steps.spent import Spent, spans_of, together
from xlagraph.terminal.structured import run_json

if TYPE_CHECKING:
    from xlagraph.run.records import SyncRecord

TICKS = st.integers(0, 40)
SPANS = st.lists(st.tuples(TICKS, TICKS).map(lambda pair: (float(min(pair)), float(max(pair)))))


@given(SPANS)
def test_time_on_the_clock_is_that_of_the_ticks_in_which_any_process_compiled(spans):
    ticks = {tick for begin, end in spans for tick in range(int(begin), int(end))}
    assert Spent(tuple(spans)).wall_seconds == len(ticks)
    assert Spent(tuple(spans)).rank_seconds == sum(end - begin for begin, end in spans)


def test_ranks_that_compile_at_once_wait_once():
    one = Spent(((100.0, 160.0),))
    many = together([Spent(((100.0 + k / 100, 160.0 + k / 100),)) for k in range(64)])
    assert str(one) == "1 min 0 s"
    assert str(many) == "1 min 1 s of wall time (1.1 h over all ranks)"
    assert str(together([one, Spent(((200.0, 201.0),))])) == "1 min 1 s"
    assert str(Spent()) == "0 s"


def test_what_ran_unseen_was_over_when_the_next_call_began():
    """One process compiles one graph after the other, whichever of them a hook saw."""

    def sync(entry: str) -> SyncRecord:
        return SimpleNamespace(
            entry=entry, time=100.0, compile_seconds=2.0, outcome="compile", graphs=("a", "b")
        )

    assert str(Spent.of([sync("unseen"), sync("sync")])) == "4.0 s"
    assert spans_of(sync("unseen")) == [(98.0, 99.0), (99.0, 100.0)]
    assert (
        str(Spent.of([sync("item"), sync("sync")])) == "2.0 s of wall time (4.0 s over all ranks)"
    )


def test_compiles_without_a_time_are_not_said_to_take_none():
    assert str(Spent(((100.0, 100.0),))) == "time not recorded"
    assert str(together([Spent(((100.0, 100.0),)), Spent(((101.0, 103.0),))])) == "2.0 s"


@pytest.mark.parametrize("name", ["transformers/bert_stock", "runs/carry", "pairs/two_ranks"])
def test_headline_causes_and_graphs_agree(name):
    """One truth: what is lost is what the causes took, and the graphs share it out."""
    explained = explained_run(FIXTURES / name)
    said = run_json(explained)
    groups = [group for group in said["groups"] if not group["expected"]]
    assert said["lost"]["rank_seconds"] == pytest.approx(
        sum(g["rank_seconds"] for g in groups), abs=1e-4
    )
    assert str(explained.lost) in str(explained.verdict)
    ranks = [node["rank_seconds"] for node in said["graphs"]]
    assert said["rank_seconds"] == pytest.approx(sum(ranks), abs=1e-4)
    assert sum(g["compiles"] for g in said["groups"]) == said["compiles"]


def test_graphs_that_come_of_carried_buckets_have_its_cause():
    """The steps of an FSDP program go round in three graphs, for one reason."""
    explained = explained_run(FIXTURES / "transformers" / "bert_stock")
    (problem,) = explained.problems
    letters = {node.digest: node.letter for node in explained.graphs}
    assert set(explained.alternating) <= {letters[digest] for digest in problem.graphs}
    assert problem.kind.id == "bucket-carry"
    assert problem.further == ()
