"""A scan that goes the other way on one side, and what only looks like that."""

from __future__ import annotations

import pytest

from xlagraph.explain import explain_modules
from xlagraph.hlo import read_module

SCAN = """HloModule step

body {
  state = (s32[], f32[3], f32[5,3]) parameter(0)
  i = s32[] get-tuple-element(state), index=0
  one = s32[] constant(1)
  next = s32[] add(i, one)
  carry = f32[3] get-tuple-element(state), index=1
  xs = f32[5,3] get-tuple-element(state), index=2
INDEX  zero = s32[] constant(0)
  row = f32[1,3] dynamic-slice(xs, k, zero), dynamic_slice_sizes={1,3}
  x = f32[3] reshape(row)
  sum = f32[3] add(carry, x)
  new = f32[3] tanh(sum)
  ROOT r = (s32[], f32[3], f32[5,3]) tuple(next, new, xs)
}

condition {
  state = (s32[], f32[3], f32[5,3]) parameter(0)
  i = s32[] get-tuple-element(state), index=0
  turns = s32[] constant(5)
  ROOT r = pred[] compare(i, turns), direction=LT
}

ENTRY main {
  xs = f32[5,3] parameter(0)
  start = f32[3] parameter(1)
  zero = s32[] constant(0)
  state = (s32[], f32[3], f32[5,3]) tuple(zero, start, xs)
  loop = (s32[], f32[3], f32[5,3]) while(state), condition=condition, body=body
  ROOT r = f32[3] get-tuple-element(loop), index=1
}
"""
FORWARDS = SCAN.replace("INDEX", "").replace("xs, k, zero", "xs, i, zero")


def scan(*index: str) -> str:
    return SCAN.replace("INDEX", "".join(f"  {line}\n" for line in index))


def counted_from(number: int) -> str:
    last = f"last = s32[] constant({number})"
    return scan(last, "k = s32[] subtract(last, i)")


AS_JAX_WRITES = scan(
    "all = s32[] constant(5)", "rest = s32[] subtract(all, i)", "k = s32[] subtract(rest, one)"
)


@pytest.mark.parametrize("backwards", [AS_JAX_WRITES, counted_from(4)])
def test_a_scan_that_goes_backwards_is_said_as_that(backwards):
    for pair in ((backwards, FORWARDS), (FORWARDS, backwards)):
        explanation = explain_modules(*map(read_module, pair))
        (cause,) = explanation.causes
        assert explanation.proved
        side = "A" if pair[0] is backwards else "B"
        assert f"from the last to the first in {side}" in str(cause.title)
        assert str(cause.in_short) == "A loop runs in the other direction"
        assert "reverse=" in str(cause.fix_in_short)


@pytest.mark.parametrize(
    "other",
    [
        counted_from(3),  # not its last element
        scan("k = s32[] add(i, one)"),
        scan("two = s32[] constant(2)", "k = s32[] multiply(i, two)"),
    ],
)
def test_another_index_is_no_other_direction(other):
    explanation = explain_modules(*map(read_module, (FORWARDS, other)))
    said = " ".join(str(cause.title) for cause in explanation.causes)
    assert "from the last to the first" not in said
