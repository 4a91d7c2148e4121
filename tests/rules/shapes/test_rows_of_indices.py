"""Rows of several indices come from a mask, or the host makes them: the program's line tells."""

from __future__ import annotations

import pytest

from xlagraph.cause.model import Cause, Context
from xlagraph.explain import explain_modules
from xlagraph.hlo import read_module

PICKED = """HloModule picked

ENTRY main {
  z = f32[9,4] parameter(0)
  i = s64[SIZE,2] parameter(1), metadata={op_type="xla__device_data"
    source_file="t.py" source_line=3}
  c = s64[SIZE,1] slice(i), slice={[0:SIZE], [0:1]}
  n = s64[SIZE] reshape(c)
  r = f32[SIZE,4] gather(z, n), offset_dims={1}, collapsed_slice_dims={0}, start_index_map={0},
    index_vector_dim=1, slice_sizes={1,4}
  ROOT t = f32[SIZE,4] tanh(r)
}
"""


@pytest.mark.parametrize(
    ("line", "what"),
    [
        ("negative = sampler.draw().to(device)", "number of indices"),
        ("edges = batch['edges'].to(device)", "number of indices"),
        ("picked = boxes[positive]", "elements that a mask keeps"),
        ("picked = boxes[positive].to(torch.bfloat16)", "elements that a mask keeps"),
        ("at = mask.nonzero().to(device)", "elements that a mask keeps"),
        ("loss = criterion(boxes, positive)", "elements that a mask keeps"),
    ],
    ids=["sent", "a key", "a mask", "a mask in another type", "nonzero", "within a call"],
)
def test_pairs_that_the_host_sends_are_not_what_a_mask_keeps(line: str, what: str):
    context = Context(program={"t.py": {3: line}})
    a, b = (read_module(PICKED.replace("SIZE", size), "m") for size in ("5", "7"))
    explanation = explain_modules(a, b, context, context)
    assert explanation.proved
    (cause,) = explanation.causes
    assert what in str(cause.in_short)


@pytest.mark.parametrize(
    ("dtype", "line"),
    [("s64", "edges = edges[:, kept]"), ("s64", "at = mask.nonzero()")],
)
def test_whole_numbers_are_kept_and_what_is_computed_of_them_is_masked(dtype: str, line: str):
    cause = masked(dtype, line)
    assert "multiply what is computed of them" in str(cause.short_fix)
    assert "torch.where(mask, x, 0)" not in str(cause.short_fix)
    assert "whole numbers" in str(cause.fix)


def test_floats_are_chosen_by_a_mask():
    cause = masked("f32", "picked = boxes[positive]")
    assert "torch.where(mask, x, 0)" in str(cause.short_fix)
    assert "whole numbers" not in str(cause.fix)


def masked(dtype: str, line: str) -> Cause:
    context = Context(program={"t.py": {3: line}})
    text = PICKED.replace("f32[", f"{dtype}[").replace("tanh", "negate")
    a, b = (read_module(text.replace("SIZE", size), "m") for size in ("5", "7"))
    (cause,) = explain_modules(a, b, context, context).causes
    return cause
