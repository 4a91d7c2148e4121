"""Straight-through estimators: one side alone has one, and what only looks like one."""

from __future__ import annotations

import pytest

from xlagraph.explain import explain_modules
from xlagraph.hlo import read_module

STEP = """\
HloModule m
add {
  a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT c = f32[] add(a, b)
}
ENTRY main {
  x = f32[8] parameter(0)
  c = f32[8] parameter(1)
  zero = f32[] constant(0)
  z = f32[8] tanh(x)
  q = f32[8] sine(c)
TAKEN
  e = f32[8] cosine(t)
  loss = f32[] reduce(e, zero), dimensions={0}, to_apply=add
  g = f32[8] sine(t)
GRADIENTS
  ROOT r = (f32[], f32[8], f32[8]) tuple(loss, nx, nc)
}
"""
STRAIGHT = "  d = f32[8] subtract(q, z)\n  t = f32[8] add(z, d)"
CLEAR = "  t = f32[8] copy(q)"
ASIDE = "  ax = f32[8] exponential(x)\n  ac = f32[8] exponential(c)\n"
TO_X = (
    ASIDE + "  s = f32[8] add(ax, g)\n  nx = f32[8] subtract(x, s)\n  nc = f32[8] subtract(c, ac)"
)
TO_Y = (
    ASIDE + "  s = f32[8] add(ac, g)\n  nx = f32[8] subtract(x, ax)\n  nc = f32[8] subtract(c, s)"
)
BOTH = f"""{ASIDE}\
  m = f32[8] negate(g)
  n = f32[8] add(g, m)
  o = f32[8] add(ax, n)
  s = f32[8] add(ac, g)
  nx = f32[8] subtract(x, o)
  nc = f32[8] subtract(c, s)"""


def said(a: tuple[str, str], b: tuple[str, str]) -> str:
    taken = (STEP.replace("TAKEN", t).replace("GRADIENTS", g) for t, g in (a, b))
    found = explain_modules(*(read_module(text, "m") for text in taken))
    return " ".join(map(str, (found.verdict.what, *found.verdict.notes)))


@pytest.mark.parametrize("turned", [False, True])
def test_gradients_that_went_past_a_value_are_an_estimator(turned):
    pair = (STRAIGHT, TO_X), (CLEAR, TO_Y)
    told = said(*(pair[::-1] if turned else pair))
    one, other = ("B", "A") if turned else ("A", "B")
    assert f"x + (y - x).detach(), is in {one} only" in told
    assert f"gradients go straight to x there, into y itself in {other}" in told


def test_a_sum_of_which_nothing_is_cut_is_none():
    assert "estimator" not in said((STRAIGHT, BOTH), (CLEAR, TO_Y))


def test_the_same_gradients_are_none():
    assert "estimator" not in said((STRAIGHT, TO_Y), (CLEAR, TO_Y))


def rounded(operation: str) -> tuple[str, str]:
    text = f"""\
  o = f32[8] {operation}(z)
  d = f32[8] subtract(o, z)
  t = f32[8] add(z, d)"""
    return text, TO_X


def test_a_value_that_is_rounded_on_one_side_is_one_that_passes_gradients():
    plain = ("  t = f32[8] copy(z)", TO_X)
    told = said(rounded("round-nearest-even"), plain)
    assert "x + (y - x).detach(), is in A only; B takes x itself" in told
    assert "estimator" not in said(rounded("logistic"), plain)
