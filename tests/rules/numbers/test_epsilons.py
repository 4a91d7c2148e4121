"""The eps of a normalisation, or of an optimizer, is told as what it is."""

from __future__ import annotations

import pytest

from xlagraph.explain import explain_modules
from xlagraph.hlo import read_module

HEAD = """HloModule step

add { p = f32[] parameter(0) q = f32[] parameter(1) ROOT s = f32[] add(p, q) }

ENTRY main {
  x = f32[4,8] parameter(0)
  g = f32[4,8] parameter(1)
  v = f32[4,8] parameter(2)
  zero = f32[] constant(0)
  eight = f32[] constant(8)
  c = f32[] constant(EPS)
"""
MEAN = """  sq = f32[4,8] multiply(x, x)
  t = f32[4] reduce(sq, zero), dimensions={1}, to_apply=add
  n = f32[4] broadcast(eight), dimensions={}
  m = f32[4] divide(t, n)
  e = f32[4] broadcast(c), dimensions={}
"""
NORM = f"""{MEAN}  a = f32[4] add(m, e)
  r = f32[4] rsqrt(a)
  w = f32[4,8] broadcast(r), dimensions={{0}}
  ROOT o = f32[4,8] multiply(x, w)
}}
"""
ADAM = """  gg = f32[4,8] multiply(g, g)
  k = f32[4,8] add(v, gg)
  q = f32[4,8] sqrt(k)
  e = f32[4,8] broadcast(c), dimensions={}
  a = f32[4,8] add(q, e)
  s = f32[4,8] divide(g, a)
  ROOT o = (f32[4,8], f32[4,8]) tuple(s, k)
}
"""
TRAINED = """  scale = f32[4] parameter(3)
  shift = f32[4] parameter(4)
  b = (f32[4,8], f32[4], f32[4]) batch-norm-training(x, scale, shift), epsilon=EPS, feature_index=0
  y = f32[4,8] get-tuple-element(b), index=0
  u = f32[4] get-tuple-element(b), index=2
  e = f32[4] broadcast(c), dimensions={}
  a = f32[4] add(u, e)
  r = f32[4] rsqrt(a)
  ROOT o = (f32[4,8], f32[4]) tuple(y, r)
}
"""
GLOBAL_NORM = """  gg = f32[4,8] multiply(g, g)
  t = f32[] reduce(gg, zero), dimensions={0,1}, to_apply=add
  xx = f32[4,8] multiply(x, x)
  tt = f32[] reduce(xx, zero), dimensions={0,1}, to_apply=add
  k = f32[] add(t, tt)
  q = f32[] sqrt(k)
  a = f32[] add(q, c)
  d = f32[] divide(eight, a)
  w = f32[4,8] broadcast(d), dimensions={}
  ROOT o = f32[4,8] multiply(g, w)
}
"""


def told(text: str, old: str = "1e-05", new: str = "1e-06") -> list[str]:
    sides = (read_module((HEAD + text).replace("EPS", number), "m") for number in (old, new))
    explanation = explain_modules(*sides)
    assert explanation.proved
    return [str(cause.in_short) for cause in explanation.causes]


@pytest.mark.parametrize(
    ("text", "of"),
    [(NORM, "a normalisation"), (TRAINED, "a normalisation"), (ADAM, "an optimizer")],
)
def test_an_eps_is_told_as_one_cause(text: str, of: str) -> None:
    assert told(text) == [f"the eps of {of}: 1e-05 became 1e-06"]


NUMBER = "a number baked into the graph"


@pytest.mark.parametrize(
    "text",
    [
        NORM.replace("rsqrt(a)", "exponential(a)"),
        NORM.replace("add(m, e)", "multiply(m, e)"),
        ADAM.replace("divide(g, a)", "divide(a, g)"),
        ADAM.replace("sqrt(k)", "tanh(k)"),
        GLOBAL_NORM,
        NORM.replace("ROOT o = f32[4,8] multiply(x, w)",
                     "h = f32[4,8] multiply(x, w)\n  j = f32[4] negate(e)\n"
                     "  ROOT o = (f32[4,8], f32[4]) tuple(h, j)"),
    ],
)  # fmt: skip
def test_other_small_numbers_stay_numbers(text: str) -> None:
    (short,) = told(text)
    assert short.startswith(NUMBER)


def test_what_is_large_is_no_eps() -> None:
    assert told(NORM, "1", "2")[0].startswith(NUMBER)
