"""Which sizes of an input are told as padded batch by batch."""

from __future__ import annotations

import pytest

from xlagraph.facts.shapes.padded import padded_fix


@pytest.mark.parametrize(
    ("old", "new", "multiple"), [(128, 160, 32), (64, 48, 16), (1000, 1008, 8)]
)
def test_multiples_of_a_number_are_padded_to_it(old, new, multiple):
    fix = str(padded_fix([(0, old, new), (1, old, new)]))
    assert fix == f"Use few, coarse buckets (these are multiples of {multiple}), or one size."


@pytest.mark.parametrize(("old", "new"), [(64, 32), (32, 64), (64, 17), (12, 20)])
def test_a_smaller_batch_and_odd_sizes_are_not_padded(old, new):
    assert not padded_fix([(0, old, new)])


def test_sizes_that_change_in_more_than_one_way_are_not_told():
    assert not padded_fix([(0, 128, 160), (1, 64, 96)])
    assert not padded_fix([])
