"""Training mode against eval mode: dropout, and norms that take the batch's statistics."""

from pathlib import Path

import pytest

from xlagraph.explain import explain_modules
from xlagraph.hlo import load, read_module

PAIR = Path(__file__).parents[2] / "fixtures" / "module_pairs"

MASKED = """HloModule masked

add {{
  p = f32[] parameter(0)
  q = f32[] parameter(1)
  ROOT r = f32[] add(p, q)
}}

ENTRY main {{
  x = f32[4,8] parameter(0)
  keep = f32[] parameter(1)
  k = f32[4,8] multiply(x, x)
  y = f32[4,8] tanh(k)
{drawn}
  zero = f32[] constant(0)
  mean = f32[8] reduce(k, zero), dimensions={{0}}, to_apply=add
  r = f32[4,8] cosine({value})
  ROOT t = ({shapes}) tuple(r{logged})
}}
"""
DROPOUT = """  keeps = f32[4,8] broadcast(keep), dimensions={}
  b = f32[4,8] rng(keep, keep), distribution=rng_uniform
  c = pred[4,8] compare(b, keeps), direction=LT
  f = f32[4,8] convert(c)
  s = f32[4,8] divide(f, keeps)
  d = f32[4,8] multiply(y, s)"""


@pytest.mark.parametrize("is_turned", [False, True])
def test_norms_that_keep_statistics_beside_dropout_are_a_mode(is_turned):
    texts = [load(str(PAIR / f"left_in_eval.{side}.hlo.gz")) for side in "ab"]
    found = explain_modules(*(texts[::-1] if is_turned else texts))
    assert found.proved
    (cause,) = found.causes
    assert "were left out with what only" in str(cause.proof), "all that was undone is told"
    one, other = "BA" if is_turned else "AB"
    assert str(found.verdict.what) == (
        "Dropout is on, and norms take the batch's statistics and keep them, in "
        f"{one} only: eval() was called in {other}."
    )


def test_a_sum_that_is_logged_is_no_statistic():
    a = MASKED.format(drawn=DROPOUT, value="d", shapes="f32[4,8], f32[8]", logged=", mean")
    b = MASKED.format(drawn="", value="y", shapes="f32[4,8]", logged="")
    found = explain_modules(read_module(a), read_module(b))
    (told,) = (c for c in found.causes if c.kind.id == "random-numbers")
    assert str(told.in_short).startswith("Dropout is on in A only: p is 0 in B")
    (note,) = (str(note) for note in found.verdict.notes if "further" in str(note))
    assert note == "1 further cause: a tensor is kept in some steps only."


@pytest.mark.parametrize("is_turned", [False, True])
def test_norms_that_keep_statistics_on_one_side_alone_are_its_mode(is_turned):
    texts = [load(str(PAIR / f"norms_left_in_train.{side}.hlo.gz")) for side in "ab"]
    found = explain_modules(*(texts[::-1] if is_turned else texts))
    (cause,) = found.causes
    assert cause.proved
    frozen, moving = "BA" if is_turned else "AB"
    assert str(found.verdict.what) == (
        f"2 batch norms take running statistics (eval) in {frozen}, the batch's (train) in "
        f"{moving} only, which keeps them: frozen in {frozen}, as by eval()."
    )
    assert "train() ends what eval() froze" in str(found.verdict.fix)
