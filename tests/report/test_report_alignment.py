"""Rows of two modules side by side, and where bucketed tensors stand on the other side."""

from __future__ import annotations

import pytest
from report_inputs import explained_pair, small_pair

from xlagraph.report.align import align
from xlagraph.report.moves import bucket_partners

PAIRS = [("carry:D", "carry:E"), ("carry:E", "carry:G"), ("carry:A", "carry:C")]


@pytest.mark.parametrize(("a", "b"), PAIRS)
def test_every_instruction_has_one_row_and_partners_share_it(a: str, b: str) -> None:
    match = explained_pair(a, b).diff.match
    sections = align(match)
    rows = [row for s in sections for row in zip(s.rows_a, s.rows_b, strict=True)]
    assert sorted(x for x, _ in rows if x >= 0) == list(range(len(match.a.module)))
    assert sorted(y for _, y in rows if y >= 0) == list(range(len(match.b.module)))
    beside = {x: y for x, y in rows if x >= 0}
    for x, y in enumerate(match.to_b):
        assert beside[x] == y


@pytest.mark.parametrize(("a", "b"), PAIRS)
def test_rows_follow_a_and_keep_what_only_b_has_in_order(a: str, b: str) -> None:
    for section in align(explained_pair(a, b).diff.match):
        in_a = [x for x in section.rows_a if x >= 0]
        assert in_a == sorted(in_a)
        last = -1
        for x, y in zip(section.rows_a, section.rows_b, strict=True):
            if x < 0:
                assert y == last + 1 or last < 0
            last = y if y >= 0 else last


def test_the_entry_comes_first_and_a_new_instruction_follows_its_neighbour() -> None:
    diff = small_pair().diff
    entry = align(diff.match)[0]
    assert entry.a == diff.a.entry
    shown = [
        (diff.a.names[x] if x >= 0 else "", diff.b.names[y] if y >= 0 else "")
        for x, y in zip(entry.rows_a, entry.rows_b, strict=True)
    ]
    assert shown[-3:] == [("out", "out"), ("", "extra"), ("r", "r")]


def test_bucketed_tensors_lead_to_each_other() -> None:
    explanation = explained_pair("carry:E", "carry:G")
    forward, back = bucket_partners(explanation)
    assert forward
    assert {b: a for a, b in forward.items()} == back
    sizes_b = [len(row.tensors) for row in explanation.buckets_b]
    assert all(position < sizes_b[bucket] for bucket, position in back)


def test_a_tensor_that_only_one_side_buckets_has_no_partner() -> None:
    explanation = explained_pair("carry:D", "carry:E")
    assert not explanation.buckets_a
    assert bucket_partners(explanation) == ({}, {})
