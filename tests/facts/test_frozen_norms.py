"""Batch norms that one side runs in eval mode, told by their statistics."""

from __future__ import annotations

import pytest

from xlagraph.diff import diff_modules
from xlagraph.facts.values.frozen_norms import frozen_norms
from xlagraph.hlo import read_module

STEP = """\
HloModule step
ENTRY main {{
  x = f32[4,8] parameter(0)
  w = f32[8] parameter(1)
  b = f32[8] parameter(2)
  m = f32[8] parameter(3)
  v = f32[8] parameter(4)
  eps = f32[] constant(1e-05)
  e = f32[8] broadcast(eps), dimensions={{}}
{norm}  ROOT out = (f32[4,8], f32[8]) tuple(y, n)
}}
"""
TRAIN = """  t = (f32[4,8], f32[8], f32[8]) batch-norm-training(x, w, b), epsilon=1, feature_index=1
  y = f32[4,8] get-tuple-element(t), index=0
  s = f32[8] get-tuple-element(t), index=2
  n = f32[8] add(v, s)
"""
BY_HAND = """  s = f32[8] add({of}, e)
  r = f32[8] rsqrt(s)
  k = f32[8] multiply(w, r)
  ks = f32[4,8] broadcast(k), dimensions={{1}}
  y = f32[4,8] multiply(x, ks)
  n = f32[8] copy(v)
"""
EVAL = """  y = f32[4,8] batch-norm-inference(x, w, b, m, v), epsilon=1e-05, feature_index=1
  n = f32[8] copy(v)
"""


def said(a: str, b: str) -> str:
    sides = (read_module(STEP.format(norm=norm)) for norm in (a, b))
    return str(frozen_norms(diff_modules(*sides)))


@pytest.mark.parametrize("norm", [BY_HAND.format(of="v"), EVAL])
def test_running_statistics_are_told_from_those_of_the_batch(norm: str) -> None:
    told = "1 batch norm takes running statistics (eval) in {}, the batch's (train) in {}"
    assert said(TRAIN, norm) == told.format("B", "A")
    assert said(norm, TRAIN) == told.format("A", "B")


def test_a_root_of_what_is_computed_is_of_no_running_statistics() -> None:
    moments = "  q = f32[8] multiply(v, v)\n" + BY_HAND.format(of="q")
    assert said(TRAIN, moments) == ""


def test_two_forms_of_one_mode_are_no_difference() -> None:
    assert said(BY_HAND.format(of="v"), EVAL) == ""
