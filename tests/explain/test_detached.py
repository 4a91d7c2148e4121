"""Gradients that flow further on one side, where no piece shows it and the values do."""

from __future__ import annotations

import pytest

from xlagraph.diff import diff_modules
from xlagraph.evaluate.alike import alike_outputs
from xlagraph.explain import explain_modules
from xlagraph.hlo import read_module

STEP = """\
HloModule m
add {
  p = f32[] parameter(0)
  q = f32[] parameter(1)
  ROOT s = f32[] add(p, q)
}
ENTRY main {
  w = f32[4,3] parameter(0)
  v = f32[3] parameter(1)
  x = f32[5,4] parameter(2)
  zero = f32[] constant(0)
  rate = f32[] constant(0.1)
  rates = f32[4,3] broadcast(rate), dimensions={}
  small = f32[3] broadcast(rate), dimensions={}
  h = f32[5,3] dot(x, w), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  t = f32[5,3] tanh(h)
  vs = f32[5,3] broadcast(v), dimensions={1}
  y = f32[5,3] multiply(t, vs)
FORWARD
  loss = f32[] reduce(e, zero), dimensions={0,1}, to_apply=add
BACKWARD
  gw = f32[4,3] dot(x, g), lhs_contracting_dims={0}, rhs_contracting_dims={0}
  gv = f32[3] reduce(k, zero), dimensions={0}, to_apply=add
  dw = f32[4,3] multiply(gw, rates)
  nw = f32[4,3] subtract(w, dw)
  dv = f32[3] multiply(gv, small)
  nv = f32[3] subtract(v, dv)
  ROOT r = (f32[], f32[4,3], f32[3]) tuple(loss, nw, nv)
}
"""
SQUARE = "  e = f32[5,3] multiply(y, y)"
POWER = "  two = f32[] constant(2)\n  twos = f32[5,3] broadcast(two), dimensions={}\n"
POWER += "  e = f32[5,3] power(y, twos)"
CUT = "  k = f32[5,3] multiply(y, t)\n  g = f32[5,3] multiply(y, vs)"
KEPT = """\
  k = f32[5,3] multiply(y, t)
  a = f32[5,3] multiply(y, vs)
  c = f32[5,3] multiply(t, t)
  m = f32[5,3] negate(c)
  n = f32[5,3] multiply(m, y)
  o = f32[5,3] multiply(n, h)
  g = f32[5,3] add(o, a)"""
SHORT = "  e = f32[5,3] multiply(y, t)"


def module(forward: str, backward: str):
    return read_module(STEP.replace("FORWARD", forward).replace("BACKWARD", backward), "m")


def said(a: tuple[str, str], b: tuple[str, str]) -> str:
    found = explain_modules(module(*a), module(*b))
    return " ".join(map(str, (found.verdict.what, *found.verdict.notes)))


def test_outputs_with_the_same_values_are_partners():
    found = alike_outputs(diff_modules(module(SQUARE, CUT), module(POWER, KEPT)))
    assert found.partners == (0, None, 2)
    assert found.telling == (True, True, True)


def test_no_partner_is_told_of_modules_that_take_other_tensors():
    other = STEP.replace("f32[5,4] parameter(2)", "f32[6,4] parameter(2)").replace("[5,", "[6,")
    other = other.replace("FORWARD", SQUARE.replace("[5,", "[6,"))
    other = other.replace("BACKWARD", CUT.replace("[5,", "[6,"))
    assert alike_outputs(diff_modules(module(SQUARE, CUT), read_module(other, "m"))) is None


@pytest.mark.parametrize("turned", [False, True])
def test_gradients_behind_an_equal_loss_flow_further(turned):
    pair = (SQUARE, CUT), (POWER, KEPT)
    told = said(*(pair[::-1] if turned else pair))
    one, other = ("A", "B") if turned else ("B", "A")
    assert f"radients flow further in {one} than in {other}" in told
    assert "numbers given out are the same" in told


def test_gradients_of_another_loss_are_not_said_to_flow_further():
    assert "numbers given out are the same" not in said((SQUARE, CUT), (SHORT, KEPT))


def test_what_comparisons_with_one_outcome_make_is_not_known_to_be_equal():
    masked = """\
  far = f32[] constant(-1e30)
  fars = f32[5,3] broadcast(far), dimensions={}
  kept = pred[5,3] compare(h, fars), direction=GT
  ones = f32[5,3] convert(kept)
  e0 = f32[5,3] multiply(y, y)
  number = f32[] reduce(ones, zero), dimensions={0,1}, to_apply=add
  numbers = f32[5,3] broadcast(number), dimensions={}
  e = f32[5,3] divide(e0, numbers)"""
    fixed = """\
  number = f32[] constant(15)
  numbers = f32[5,3] broadcast(number), dimensions={}
  e0 = f32[5,3] multiply(y, y)
  e = f32[5,3] divide(e0, numbers)"""
    pair = (masked, CUT), (fixed, KEPT)
    found = alike_outputs(diff_modules(module(*pair[0]), module(*pair[1])))
    assert found.partners[0] == 0
    assert found.one_way[0]
    assert "numbers given out are the same" not in said(*pair)
