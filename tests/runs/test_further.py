"""The further graph that one is compared with where the nearest proves nothing."""

from __future__ import annotations

from types import SimpleNamespace

from xlagraph.runs.compare import Comparison, _first


def compared(number, *expected):
    """A graph and the one that it is compared with, by causes that are warm-up or not."""
    causes = tuple(SimpleNamespace(expected=one) for one in expected)
    return Comparison(number, "", SimpleNamespace(causes=causes))


def test_the_first_of_the_graphs_that_vary_each_other_is_chosen():
    chain = [Comparison(None, "", None), compared(0, False), compared(1, False), compared(2, False)]
    assert _first(chain, 3) == 0


def test_graphs_that_take_state_in_are_not_compared_with_one_that_makes_it():
    """Whatever makes more of the difference: that would make warm-up of every later graph."""
    for second in (compared(0, True), compared(0, False, True)):
        chain = [Comparison(None, "", None), second, compared(1, False), compared(2, False)]
        assert _first(chain, 3) == 1
