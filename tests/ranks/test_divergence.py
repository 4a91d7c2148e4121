"""Steps in which ranks ran something else, by step number and by sequence."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from xlagraph.ranks.divergence import Difference, differences
from xlagraph.ranks.model import Executed, Plan
from xlagraph.ranks.words import end_words


def plan(rank, steps, *, ended=True):
    """A rank that ran the graphs of each step, one letter a graph, ``?`` for one not known.

    A step that begins with ``-`` has not ended.
    """
    executed = [
        Executed(number, "" if graph == "?" else graph, k == len(graphs) and graphs[0] != "-")
        for number, graphs in enumerate(steps)
        for k, graph in enumerate(graphs, 1)
        if graph != "-"
    ]
    return Plan(rank, tuple(executed), ended)


def found(*rows, **more):
    return differences([plan(rank, row.split(), **more) for rank, row in enumerate(rows)])


def test_ranks_that_agree_differ_nowhere():
    assert found("A A B A", "A A B A", "A A B A") == ()


def test_one_rank_that_ran_another_graph_in_two_steps():
    assert found("A A A A", "A B B A", "A A A A") == (
        Difference((1,), (0, 2), (1, 2), ("B",), ("A",)),
    )


def test_one_rank_that_reads_a_value_in_its_steps():
    assert found("A LA LA", "A A A", "A A A") == (
        Difference((0,), (1, 2), (1, 2), ("L", "A"), ("A",)),
    )


def test_a_step_more_is_no_difference_in_all_that_follow():
    assert found("A B A B A B", "A B A X B A B", "A B A B A B") == (
        Difference((1,), (0, 2), (6,), ("X",), (), is_end=True),
    )


def test_a_step_less():
    assert found("A B C D E", "A B D E", "A B C D E") == (
        Difference((1,), (0, 2), (4,), (), ("C",), is_end=True),
    )


def test_a_rank_that_ends_before_the_others():
    (one,) = found("A A A", "A A", "A A A")
    assert one == Difference((1,), (0, 2), (2,), (), ("A",), is_end=True)
    assert end_words(one) == "rank 1 finished after step 1; ranks 0, 2 ran 3 steps"
    (one,) = found("A A A", "A A A A A", "A A A")
    assert one == Difference((1,), (0, 2), (3, 4), ("A",), (), is_end=True)
    assert end_words(one) == "rank 1 ran 5 steps; ranks 0, 2 finished after step 2"


def test_the_end_of_a_rank_with_fewer_steps_whose_last_ones_are_others():
    """As where each rank's last batches are smaller."""
    (one,) = found("A B B B C B B B C B D D", "A B B B C B B B C D D")
    assert one == Difference((1,), (0,), (11,), (), ("B",), is_end=True)
    assert end_words(one) == "rank 1 finished after step 10; rank 0 ran 12 steps"


def test_a_step_that_ran_nothing_is_no_end():
    (one,) = found("A A A", "A - A", "A A A")
    assert one == Difference((1,), (0, 2), (1,), (), ("A",))


def test_another_graph_and_an_end():
    assert found("A B A A A A", "A X A A", "A B A A A A") == (
        Difference((1,), (0, 2), (1,), ("X",), ("B",)),
        Difference((1,), (0, 2), (4, 5), (), ("A",), is_end=True),
    )


def test_two_sides_with_steps_of_their_own_are_compared_by_number():
    one, *_, last = found("A B C D E F G H", "A C D X E F G", "A B C D E F G H")
    assert (one.steps, one.ran, one.usual) == ((1,), ("C",), ("B",))
    assert last == Difference((1,), (0, 2), (7,), (), ("H",), is_end=True)


def test_ranks_that_were_killed_have_not_ended():
    killed = [plan(rank, ["A", "A"], ended=False) for rank in (1, 2)]
    assert differences([plan(0, ["A", "A", "A"]), *killed]) == ()


def test_what_is_not_known_says_nothing():
    assert found("A A A", "A ? A", "A A A") == ()
    assert found("A A A", "A A", "A A A", ended=False) == ()
    assert found("A A AB", "A A -A", "A A AB", ended=False) == ()


def test_the_last_step_of_a_job_that_hung_counts_if_it_was_recorded():
    assert found("A A", "A B", "A A", ended=False) == (
        Difference((1,), (0, 2), (1,), ("B",), ("A",)),
    )


@given(
    st.lists(st.sampled_from(["A", "B", "AB", "C"]), min_size=1, max_size=30),
    st.integers(0, 4),
    st.data(),
)
def test_one_edited_step_is_found_where_it_is(row, odd, data):
    at = data.draw(st.integers(0, len(row) - 1))
    mine = [*row[:at], "X", *row[at + 1 :]]
    plans = [plan(rank, mine if rank == odd else row) for rank in range(5)]
    (one,) = differences(plans)
    assert (one.ranks, one.steps, one.ran) == ((odd,), (at,), ("X",))
    assert one.usual == tuple(row[at])
    assert set(one.others) == set(range(5)) - {odd}


@given(st.lists(st.lists(st.sampled_from(["A", "B"]), max_size=8), min_size=2, max_size=5))
def test_ranks_differ_just_where_rows_do(rows):
    plans = [plan(rank, row) for rank, row in enumerate(rows)]
    assert bool(differences(plans)) == (len({tuple(row) for row in rows}) > 1)


def test_a_step_number_out_of_a_damaged_record_costs_no_memory():
    plans = [Plan(k, (Executed(10**12 * k, "A", ends_step=True),), ended=True) for k in range(3)]
    assert len(differences(plans)) <= 2
