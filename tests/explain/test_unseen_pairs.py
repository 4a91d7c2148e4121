"""Pairs of the rounds of unseen programs, and what is said of each first."""

from __future__ import annotations

from pathlib import Path

import pytest

from xlagraph.explain import explain_modules
from xlagraph.hlo import load

UNSEEN = Path(__file__).resolve().parents[2] / "benchmarks" / "unseen"
SAID = {
    "round33/q01": "1 - lr * weight_decay rounds to 1 in some steps",
    "round33/q07": "1 weight (f32[24,8]) is trained in B and left as it is in A",
    "round33/q10": "x - y < top_p became scatter(x <= top_p, z, true)",
    "round33/q11": "3 sums of f32[4,6,16,16] give f32[6] in A and f32[4,6] in B",
    "round33/q12": "A factor scales another term",
    "round33/q17": "A branch in Python picks another value",
    "round33/q18": "A takes 19 tensors as bf16 and gives their new values back as f32",
    "round34/q10": "Gradients are clipped in each turn of a loop in B, and once, behind it, in A",
    "round34/q13": "Gradients are scaled before they are clipped by their norm in A",
    "round34/q17": "A value is divided by input 27 (f32[]) before sort, compare in A",
}
SAME = ("round33/q08", "round33/q15", "round33/q20", "round34/q08", "round34/q14", "round34/q19")


def _explained(pair: str):
    folder, name = pair.split("/")
    files = (str(UNSEEN / folder / "pairs" / f"{name}_{side}.hlo.gz") for side in "ab")
    return explain_modules(*map(load, files))


@pytest.mark.parametrize("pair", SAID)
def test_what_was_edited_is_told_first(pair):
    found = _explained(pair)
    assert not found.same
    assert found.causes[0].proved
    assert SAID[pair] in str(found.verdict.what)


@pytest.mark.parametrize("pair", SAME)
def test_a_refactoring_is_told_as_that(pair):
    found = _explained(pair)
    assert found.same
    assert found.evaluated == 6
    assert str(found.verdict.what).startswith("The same values, but for rounding")


def test_what_changes_no_value_is_told_apart():
    """repeat() in place of cat() gives the same; labels in another order do not."""
    found = _explained("round34/q06")
    formula = "x * ((y - sqrt(z) * u) / sqrt(1 - z)) became x * v"
    assert formula in str(found.verdict.what)
    (form,) = (cause for cause in found.causes if cause.is_neutral)
    assert "transpose(concatenate(concatenate(x)))" in str(form.in_short)
    further, written, *_ = map(str, found.verdict.notes)
    assert further == "1 further cause: an operation takes its values in another order."
    assert written.startswith("Written otherwise, with the same values: ")
