"""Pairs that hang together with nothing else, where their operands lead elsewhere."""

from __future__ import annotations

from pathlib import Path

from xlagraph.diff import diff_modules
from xlagraph.hlo import load

PAIRS = Path(__file__).resolve().parents[2] / "benchmarks" / "unseen" / "round64" / "pairs"


def test_the_only_sums_of_their_size_are_no_pair_where_what_they_sum_up_says_otherwise():
    """A dice loss of the batch and one of each image, whose mean is the only other number."""
    a, b = (load(str(PAIRS / f"q06_{side}.hlo.gz")) for side in "ab")
    diff = diff_modules(a, b)
    found = {a.names[x]: b.names[y] for x, y in enumerate(diff.match.to_b) if y >= 0}
    assert found["reduce.368"] == "reduce.370"
    assert found["multiply.369"] == "multiply.372"
    assert "reduce.387" not in found.values()
