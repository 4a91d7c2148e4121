"""Alignment of sequences: what it pairs is equal and in order, and it finds single edits."""

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from xlagraph.diff.align import aligned, longest_rise

ITEMS = st.lists(st.integers(0, 5), max_size=30)


@given(ITEMS, ITEMS)
def test_pairs_are_equal_items_in_rising_order(a, b):
    pairs = aligned(a, b)
    assert all(a[x] == b[y] for x, y in pairs)
    assert all(x < u and y < v for (x, y), (u, v) in pairwise(pairs))


@given(ITEMS)
def test_a_sequence_is_aligned_with_itself(a):
    assert aligned(a, a) == [(k, k) for k in range(len(a))]


@given(ITEMS, st.integers(0, 30), st.booleans())
def test_one_edit_costs_one_item(a, place, is_insertion):
    b = list(a)
    b[place : place if is_insertion else place + 1] = [9]
    assert len(aligned(a, b)) == len(a) - (not is_insertion and place < len(a))


def test_cuts_at_what_occurs_once():
    assert aligned("xAAyBBz", "qAyBBBr") == [(2, 1), (3, 2), (4, 3), (5, 4)]


@given(st.lists(st.integers(0, 40), max_size=12))
def test_no_longer_rise_exists(numbers):
    best = [1] * len(numbers)
    for k in range(len(numbers)):
        best[k] += max((best[j] for j in range(k) if numbers[j] < numbers[k]), default=0)
    rise = [numbers[k] for k in longest_rise(numbers)]
    assert len(rise) == max(best, default=0)
    assert rise == sorted(set(rise))
