"""What is predicted against real processes: XLA's CPU with Gloo between them."""

from __future__ import annotations

import sys

import pytest
from gloo_oracle import run_together
from repository import ROOT

from xlagraph.ranks.model import Outcome

sys.path.insert(0, str(ROOT / "benchmarks"))

from hangs import is_right, make_pair, predicted

SECONDS = 6.0


@pytest.mark.parametrize(
    ("seed", "edit", "outcome"),
    [
        (0, "size", Outcome.MISMATCH),
        (5, "group-order", Outcome.HANG),
        (31, "divide", Outcome.MATCH),
    ],
)
def test_what_is_predicted_is_what_happens(seed, edit, outcome):
    pair = make_pair(seed)
    said = predicted(pair)
    assert (pair.edit, said.outcome, said.certain) == (edit, outcome, True)
    texts = [pair.texts(rank) for rank in range(pair.world)]
    assert is_right(pair, said, run_together(texts, pair.grid, SECONDS))


def test_every_edit_is_predicted_one_way_or_another():
    found = {}
    for seed in range(54):
        pair = make_pair(seed)
        said = predicted(pair)
        found.setdefault(pair.edit, set()).add(said.outcome)
        assert (said.reason is None) == (said.outcome is Outcome.MATCH)
    assert all(outcomes == {Outcome.MATCH} for edit, outcomes in found.items() if edit in HARMLESS)
    assert all(Outcome.MATCH not in out for edit, out in found.items() if edit not in HARMLESS)


HARMLESS = ("channels", "divide", "iota", "local", "module-without", "same")
