"""What goes round in the steps of a program, and whether it is more than chance."""

from __future__ import annotations

import pytest

from xlagraph.runs.steps.cycle import cycle_of
from xlagraph.runs.steps.order import Turn

EVALUATED = "AAAB" * 4 + "EE" + "AAAB" * 2 + "AA" + "EE" + "AAAB"


def cycle(steps):
    """Of steps that each ran a graph; a dot is one of which it is not known."""
    return cycle_of([Turn(k, (), frozenset(g.strip("."))) for k, g in enumerate(steps)])


@pytest.mark.parametrize(
    ("steps", "is_kept"),
    [
        ("AAAB" * 5, True),
        (EVALUATED, True),  # each phase begins it anew
        ("AAAB" * 4 + "C" * 9, True),
        ("AAAB" * 3 + "DEBFABABAGAAADAFAFAAAAAA", False),  # a coin
        ("AAAB" * 3 + "DAB.ABD", True),
        ("AB" * 5 + "CAAC", False),
    ],
)
def test_graphs_that_come_in_another_order_behind_a_cycle_went_round_by_chance(steps, is_kept):
    found = cycle(steps)
    assert found.period
    assert found.is_kept() is is_kept


def test_a_graph_that_no_step_is_known_to_have_run_is_not_in_the_cycle():
    steps = [*"AB" * 3, *("AC", "B") * 3]  # steps that ran one of two graphs
    found = cycle_of([Turn(k, (), frozenset(g)) for k, g in enumerate(steps)])
    assert found.period == 2
    assert {graph for graph in "ABC" if found.has(graph)} == {"A", "B"}
