"""A detach() left out of a distance: its derivative by the other value is the same, mirrored."""

from __future__ import annotations

import pytest

from xlagraph.explain import explain_modules
from xlagraph.hlo import read_module

STEP = """HloModule step

add { p = f32[] parameter(0) q = f32[] parameter(1) ROOT s = f32[] add(p, q) }

ENTRY main {
  x = f32[3,8] parameter(0)
  w = f32[8,4] parameter(1)
  v = f32[8,4] parameter(2)
  rate = f32[] parameter(3)
  part = f32[] parameter(4)
  rates = f32[8,4] broadcast(rate), dimensions={}
  z = f32[3,4] dot(x, w), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  t = f32[3,4] dot(x, v), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  q = f32[3,4] tanh(t)
  d = f32[3,4] subtract(z, q)
  dd = f32[3,4] multiply(d, d)
  e = f32[3,4] exponential(t)
  zero = f32[] constant(0)
  l = f32[] reduce(dd, zero), dimensions={0,1}, to_apply=add
  k = f32[] reduce(e, zero), dimensions={0,1}, to_apply=add
  two = f32[] constant(2)
  twos = f32[3,4] broadcast(two), dimensions={}
  parts = f32[3,4] broadcast(part), dimensions={}
  d2 = f32[3,4] multiply(twos, d)
  gz = f32[3,4] multiply(d2, parts)
  gw = f32[8,4] dot(x, gz), lhs_contracting_dims={0}, rhs_contracting_dims={0}
  lw = f32[8,4] multiply(rates, gw)
  nw = f32[8,4] subtract(w, lw)
MORE
  gv = f32[8,4] dot(x, TAKEN), lhs_contracting_dims={0}, rhs_contracting_dims={0}
  lv = f32[8,4] multiply(rates, gv)
  nv = f32[8,4] subtract(v, lv)
  ROOT r = (f32[], f32[], f32[8,4], f32[8,4]) tuple(l, k, nw, nv)
}
"""
PLAIN = STEP.replace("MORE\n", "").replace("TAKEN", "e")
TERM = """  m = f32[3,4] subtract(q, z)
  m2 = f32[3,4] multiply(twos, m)
  gq = f32[3,4] multiply(m2, parts)
  s = f32[3,4] add(e, gq)"""


def told(term: str) -> set[str]:
    longer = STEP.replace("MORE", term).replace("TAKEN", "s")
    sides = read_module(PLAIN, "m"), read_module(longer, "m")
    explanation = explain_modules(*sides)
    assert explanation.proved
    return {str(cause.in_short) for cause in explanation.causes}


def test_a_detach_left_out_of_a_distance_is_told_with_its_value() -> None:
    cut = "which cuts them at q f32[3,4], as by .detach() or no_grad()"
    assert told(TERM) == {f"gradients flow further in B than in A, {cut}"}


@pytest.mark.parametrize(
    "term",
    [
        TERM.replace("subtract(q, z)", "subtract(q, e)"),  # another distance
        TERM.replace("multiply(m2, parts)", "multiply(m2, twos)"),  # scaled otherwise
        TERM.replace("add(e, gq)", "multiply(e, gq)"),
    ],
)
def test_other_terms_are_no_derivative_of_it(term: str) -> None:
    assert all("flow further" not in one for one in told(term))


OF_HUBER = """  a{n} = f32[3,4] abs({d})
  c{n} = pred[3,4] compare(a{n}, twos), direction=LT
  g{n} = pred[3,4] compare({x}, {y}), direction=GT
  o{n} = f32[3,4] negate(twos)
  s{n} = f32[3,4] select(g{n}, twos, o{n})
  {to} = f32[3,4] select(c{n}, {d}, s{n})"""


@pytest.mark.parametrize(
    ("edit", "is_told"),
    [
        (("", ""), True),
        (("compare(q, z), direction=GT", "compare(z, q), direction=GT"), False),
        (("abs(m)", "abs(e)"), False),
    ],
)
def test_a_distance_of_any_form_has_its_derivative_mirrored(
    edit: tuple[str, str], *, is_told: bool
) -> None:
    own = OF_HUBER.format(n=1, d="d", x="z", y="q", to="d2")
    other = OF_HUBER.format(n=2, d="m", x="q", y="z", to="m2").replace(*edit)
    both = STEP.replace("  d2 = f32[3,4] multiply(twos, d)", own)
    term = TERM.replace("  m2 = f32[3,4] multiply(twos, m)", other)
    plain = both.replace("MORE\n", "").replace("TAKEN", "e")
    longer = both.replace("MORE", term).replace("TAKEN", "s")
    explanation = explain_modules(read_module(plain, "m"), read_module(longer, "m"))
    told = [str(cause.in_short) for cause in explanation.causes]
    assert any("flow further" in one and "at q f32[3,4]" in one for one in told) == is_told, told
