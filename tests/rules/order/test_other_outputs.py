"""An output that is another of the values that both sides compute."""

from __future__ import annotations

import pytest

from xlagraph.explain import explain_modules
from xlagraph.hlo import read_module

STEP = """HloModule jit_step

ENTRY main {
  x = f32[4,8] parameter(0)
  state = f32[4,8] parameter(1)
  mixed = f32[4,8] add(x, state)
  normed = f32[4,8] tanh(mixed)
  scaled = f32[4,8] multiply(normed, x)
  y = f32[4,8] exponential(scaled)
  short = f32[4,2] slice(y), slice={[0:4], [0:2]}
  ROOT r = (f32[4,8], f32[4,8]) tuple(y, STATE)
}
"""


def explained(a, b):
    texts = (STEP.replace("STATE", value) for value in (a, b))
    return explain_modules(
        *(read_module(text, side) for text, side in zip(texts, "ab", strict=True))
    )


@pytest.mark.parametrize(
    ("a", "b"), [("normed", "mixed"), ("mixed", "normed"), ("scaled", "mixed")]
)
def test_another_value_of_both_is_given_out(a, b):
    found = explained(a, b)
    (cause,) = found.causes
    assert found.proved
    assert cause.kind.id == "other-operand"
    said = f"output 1 (f32[4,8]) is another value: {b} (f32[4,8]) in B and {a} (f32[4,8]) in A"
    assert str(cause.in_short) == said
    assert str(cause.proof) == "B gave out what A does"


def test_the_same_output_is_the_same_module():
    assert explained("normed", "normed").same


def test_what_one_side_alone_computes_is_told_as_that():
    a, b = STEP.replace("STATE", "normed"), STEP.replace("STATE", "wave")
    b = b.replace("  ROOT", "  wave = f32[4,8] cosine(mixed)\n  ROOT")
    found = explain_modules(read_module(a, "a"), read_module(b, "b"))
    assert found.proved
    assert "other-operand" not in {cause.kind.id for cause in found.causes}
