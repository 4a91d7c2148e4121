"""What checkpointing computes again by calls of other functions, and what differs beside it."""

from __future__ import annotations

import gzip
import re
from pathlib import Path

import pytest

from xlagraph.explain import explain_modules
from xlagraph.hlo import read_module

PAIRS = Path(__file__).resolve().parents[3] / "fixtures" / "module_pairs"
A, B = (
    gzip.decompress((PAIRS / f"block_computed_again.{s}.hlo.gz").read_bytes()).decode()
    for s in "ab"
)
VARIANCE = re.compile(r"^_var\S* \{\n.*?^\}", re.MULTILINE | re.DOTALL)


def kinds(a: str, b: str) -> list[str]:
    explanation = explain_modules(read_module(a, "a"), read_module(b, "b"))
    assert explanation.proved
    return [cause.kind.id for cause in explanation.causes]


def edited(text: str, places: slice) -> str:
    """With another number in some of the functions that compute a variance and more."""
    bodies = [m.group() for m in VARIANCE.finditer(text) if "constant(nan)" in m.group()]
    assert bodies[places]
    for body in bodies[places]:
        text = text.replace(body, body.replace("constant(nan)", "constant(7)"))
    return text


def test_a_value_that_another_function_gives_back_is_computed_again():
    assert kinds(A, B) == kinds(B, A) == ["rematerialization"]


@pytest.mark.parametrize("count", [1, 2, 3])
def test_a_function_that_computes_something_else_is_a_cause_beside_it(count):
    assert len([m for m in VARIANCE.finditer(B) if "constant(nan)" in m.group()]) == 3
    found = kinds(A, edited(B, slice(count)))
    assert "rematerialization" in found
    assert len(found) > 1
