"""Which graph a hit ran, and which syncs end a step: by hand-made hits and real runs."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from xlagraph.capture.steps.habits import RECHECK, TRUST, Habits
from xlagraph.capture.steps.running import RunningGraphs
from xlagraph.run.reader import read_run
from xlagraph.run.records import ends_step

FIXTURES = Path(__file__).parents[2] / "fixtures"
RUNS = sorted({path.parent for path in FIXTURES.rglob("records-*.jsonl")})
PLACES = [(1, "sync"), (2, "sync")]


@pytest.mark.parametrize("folder", RUNS, ids=lambda folder: folder.name)
def test_the_step_moves_on_where_a_sync_ends_one(folder):
    for process in read_run(folder).processes:
        steps = dict.fromkeys({sync.rank for sync in process.syncs}, 0)
        for sync in process.syncs:
            assert sync.step == steps[sync.rank]
            steps[sync.rank] += sync.ends_step


def test_what_ends_a_step():
    assert ends_step("step", "optimizer_step")
    assert ends_step("compile", "compile")
    assert not ends_step("compile", "compile_begin")
    assert not ends_step("value", "item")


EVENTS = st.lists(
    st.tuples(
        st.booleans(),
        st.sampled_from("abc"),
        st.sampled_from(PLACES),
        st.integers(1, 3),
        st.sampled_from(["", "h1", "h2"]),
        st.booleans(),
    ),
    max_size=12,
)


@given(EVENTS, st.booleans())
def test_the_question_changes_no_answer(events, knows_all):
    asked, silent = RunningGraphs(), RunningGraphs()
    asked.knows_all = silent.knows_all = knows_all
    for is_compile, name, place, size, graph_hash, is_whole in events:
        for graphs in (asked, silent):
            if is_compile:
                graphs.compiled((name,), place, size, graph_hash, is_whole=is_whole)
            else:
                graphs.hit(place, size, graph_hash)
        for at in PLACES:
            for number in range(4):
                asked.of(at, number, graph_hash)
    answers = [
        [graphs.of(at, number, one) for at in PLACES for number in range(4) for one in ("", "h1")]
        for graphs in (asked, silent)
    ]
    assert answers[0] == answers[1]


def test_a_hash_of_a_part_names_no_graph_where_another_has_the_size():
    graphs = RunningGraphs()
    graphs.compiled(("a",), PLACES[0], 5, "h0", is_whole=True)
    graphs.compiled(("b",), PLACES[0], 7, "h1", is_whole=False)
    graphs.hit(PLACES[0], 5, "h1")
    assert graphs.of(PLACES[0], 5, "h1") == ()
    assert graphs.of(PLACES[0], 7, "h1") == ("b",)
    assert graphs.of(PLACES[0], 8, "h1") == ("b",)  # with two nodes for the same data


def test_a_hash_of_a_part_is_told_where_all_others_of_the_size_had_theirs_again():
    """The first step has two nodes less than all others, and those of another size have as many."""
    graphs = RunningGraphs()
    graphs.compiled(("a",), PLACES[0], 5, "h0", is_whole=False)
    graphs.compiled(("b",), PLACES[0], 7, "h1", is_whole=False)
    assert graphs.of(PLACES[0], 7, "h0") == ()  # it may be "b", of which Python sees less
    graphs.hit(PLACES[0], 7, "h1")
    assert graphs.of(PLACES[0], 7, "h0") == ("a",)
    graphs.hit(PLACES[0], 7, "h0")
    assert graphs.of(PLACES[0], 7, "h1") == ("b",)
    assert graphs.of(PLACES[0], 7, "") == ()
    graphs.compiled(("c",), PLACES[0], 9, "", is_whole=False)
    graphs.compiled(("d",), PLACES[0], 8, "h2", is_whole=False)
    assert graphs.of(PLACES[0], 9, "h2") == ()  # it may be "c", at which nobody looked


def test_a_hash_that_none_had_is_of_the_one_that_nobody_looked_at():
    graphs = RunningGraphs()
    graphs.compiled(("a",), PLACES[0], 5, "h1", is_whole=True)
    graphs.compiled(("b",), PLACES[0], 5, "", is_whole=False)
    assert graphs.of(PLACES[0], 5, "h2") == ()  # it may be "a" under another hash
    graphs.hit(PLACES[0], 5, "h1")
    assert graphs.of(PLACES[0], 5, "h2") == ("b",)
    assert graphs.of(PLACES[0], 6, "h2") == ()
    graphs.hit(PLACES[0], 5, "h2")
    graphs.compiled(("c",), PLACES[0], 5, "", is_whole=False)
    assert graphs.of(PLACES[0], 5, "h2") == ("b",)
    assert graphs.of(PLACES[0], 5, "h3") == ("c",)
    assert graphs.of(PLACES[0], 5, "h1") == ("a",)


def test_of_two_that_nobody_looked_at_none_is_taken_for_a_hit():
    graphs = RunningGraphs()
    graphs.compiled(("a",), PLACES[0], 5, "", is_whole=False)
    graphs.compiled(("b",), PLACES[0], 5, "", is_whole=False)
    assert graphs.of(PLACES[0], 5, "h1") == ()


def test_a_size_is_read_until_it_is_trusted_and_now_and_then_again():
    habits, read = Habits(), []

    def size():
        read.append(1)
        return 7

    for _ in range(TRUST + RECHECK):
        assert habits.size(PLACES[0], 3, size, is_first=True) == 7
    assert len(read) == TRUST + 1
    assert habits.may_repeat()
    habits.repeats()
    habits.size(PLACES[0], 3, size, is_first=True)
    assert len(read) == TRUST + 2
    habits.size(PLACES[0], 3, size, is_first=False)
    assert len(read) == TRUST + 3
    assert not habits.may_repeat(), "something ran unseen before the last one"


def test_places_with_graphs_of_several_sizes_are_never_trusted():
    habits = Habits()
    for number in range(3 * TRUST):
        habits.size(PLACES[0], 3, lambda number=number: number % 2, is_first=True)
        assert not habits.may_repeat()
