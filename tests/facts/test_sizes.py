"""Which sizes follow from another one."""

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from xlagraph.facts.shapes.sizes import MAX_SHIFT, explained

SIZE = st.integers(4, 200)


@given(SIZE, SIZE, st.integers(1, 64), st.integers(-MAX_SHIFT, MAX_SHIFT))
def test_rows_that_are_joined_follow_from_their_length(before, after, rows, cut):
    assume(before != after)
    old, new = rows * (before - cut), rows * (after - cut)
    assert explained(f"f32[{old},3]", f"f32[{new},3]", frozenset({(before, after)}))


@pytest.mark.parametrize(
    ("old", "new"),
    [(100, 60), (64, 20), (248, 153), (48, 84), (8 * 24, 8 * 12)],
    ids=["other ratio", "too much cut off", "not whole rows", "other direction", "too much added"],
)
def test_what_is_no_multiple_of_them_is_a_size_of_its_own(old, new):
    assert not explained(f"f32[{old}]", f"f32[{new}]", frozenset({(32, 20)}))


@given(SIZE, SIZE, SIZE, SIZE, st.integers(1, 8), st.integers(0, MAX_SHIFT))
def test_rows_and_columns_that_change_at_once_are_joined(p, q, r, s, times, cut):
    assume(p != q and r != s and (p, q) != (r, s))
    old, new = times * p * (r + cut), times * q * (s + cut)
    assert explained(f"f32[{old},24]", f"f32[{new},24]", frozenset({(p, q), (r, s)}))


def test_joined_rows_and_columns_do_not_follow_from_one_of_them():
    assert not explained("f32[576]", "f32[96]", frozenset({(9, 4)}))
    assert not explained("f32[577]", "f32[96]", frozenset({(9, 4), (64, 24)}))
