"""A loss of gradients that one side has: named, and told from what only looks like one."""

from __future__ import annotations

from xlagraph.explain import explain_modules
from xlagraph.hlo import read_module

SHORT = "A gradient penalty (a loss of gradients) is computed on one side only"
OUTER = "lhs_contracting_dims={0}, rhs_contracting_dims={0}"
BACK = "lhs_contracting_dims={1}, rhs_contracting_dims={1}"
ON = "lhs_contracting_dims={1}, rhs_contracting_dims={0}"


def step(piece: str = "", first: str = "g1", second: str = "g2") -> str:
    """A step of two layers that adds a piece's values to gradients of its weights."""
    return f"""HloModule step

ENTRY main {{
  x = f32[4,5] parameter(0)
  w1 = f32[5,8] parameter(1)
  w2 = f32[8,1] parameter(2)
  y = f32[4,1] parameter(3)
  one = f32[] constant(1)
  ones = f32[4,8] broadcast(one), dimensions={{}}
  h = f32[4,8] dot(x, w1), {ON}
  t = f32[4,8] tanh(h)
  tt = f32[4,8] multiply(t, t)
  d = f32[4,8] subtract(ones, tt)
  s = f32[4,1] dot(t, w2), {ON}
  e = f32[4,1] subtract(s, y)
  c = f32[4,8] dot(e, w2), {BACK}
  cd = f32[4,8] multiply(c, d)
  g1 = f32[5,8] dot(x, cd), {OUTER}
  g2 = f32[8,1] dot(t, e), {OUTER}{piece}
  n1 = f32[5,8] subtract(w1, {first})
  n2 = f32[8,1] subtract(w2, {second})
  ROOT out = (f32[4,1], f32[5,8], f32[8,1]) tuple(s, n1, n2)
}}"""


def of_gradient(value: str) -> str:
    """What a loss of value times w1 adds to the gradient of w1."""
    return f"""
  back = f32[4,5] dot({value}, w1), {BACK}
  twice = f32[4,5] add(back, back)
  k1 = f32[5,8] dot(twice, {value}), {OUTER}
  s1 = f32[5,8] add(g1, k1)"""


FROM_ABOVE = f"""
  seed = f32[4,1] broadcast(one), dimensions={{}}
  u = f32[4,8] dot(seed, w2), {BACK}
  v = f32[4,8] multiply(u, d)"""
BEHIND = f"""
  z = f32[4,8] dot(twice, w1), {ON}
  zd = f32[4,8] multiply(z, d)
  k2 = f32[8,1] dot(zd, seed), {OUTER}
  s2 = f32[8,1] add(g2, k2)"""


def told(b: str) -> tuple[str, str]:
    """The first cause against the plain step, short and long."""
    first = explain_modules(read_module(step()), read_module(b)).causes[0]
    return str(first.in_short), str(first.title)


def test_gradients_that_a_loss_takes_in_are_named() -> None:
    short, title = told(step(FROM_ABOVE + of_gradient("v") + BEHIND, "s1", "s2"))
    assert short == SHORT
    assert "a loss of the gradient with respect to input 0 (f32[4,5])" in title


def test_a_decoder_with_the_same_weights_has_no_loss_of_gradients() -> None:
    short, title = told(step(of_gradient("t"), "s1"))
    assert short != SHORT
    assert "loss of the gradient" not in title


def test_a_gradient_that_nothing_is_the_derivative_of_is_no_loss() -> None:
    norm = f"""{FROM_ABOVE}
  back = f32[4,5] dot(v, w1), {BACK}
  norm = f32[5,8] dot(x, v), {OUTER}
  own = f32[5,8] dot(back, cd), {OUTER}
  s0 = f32[5,8] add(g1, norm)
  s1 = f32[5,8] add(s0, own)"""
    assert told(step(norm, "s1"))[0] != SHORT
