"""Gradients that are cut on one side, beside an edit of the forward pass."""

from __future__ import annotations

import pytest

from xlagraph.explain import explain_modules
from xlagraph.hlo import read_module

HEAD = """\
HloModule IrToHlo.9
sum {
  a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT c = f32[] add(a, b)
}
ENTRY main {
  x = f32[16,4] parameter(0), AT1
  w = f32[4,5] parameter(1), AT1
  v = f32[5,5] parameter(2), AT1
  h = f32[16,5] dot(x, w), lhs_contracting_dims={1}, rhs_contracting_dims={0}, AT2
"""
TANH = "  u = f32[16,5] tanh(h), AT3\n"
SINE = "  u = f32[16,5] sine(h), AT3\n"
REST = """\
  k = f32[16,5] dot(u, v), lhs_contracting_dims={1}, rhs_contracting_dims={0}, AT4
  t = f32[16,5] logistic(u), AT5
  o = f32[16,5] multiply(k, t), AT6
  e = f32[16,5] exponential(o), GONE
  ek = f32[16,5] multiply(e, t), GONE
  gv = f32[5,5] dot(u, ek), lhs_contracting_dims={0}, rhs_contracting_dims={0}, GONE
  gk = f32[16,5] dot(ek, v), lhs_contracting_dims={1}, rhs_contracting_dims={1}, GONE
"""
FURTHER = """\
  et = f32[16,5] multiply(e, k), GONE
  tt = f32[16,5] multiply(t, t), GONE
  td = f32[16,5] subtract(t, tt), GONE
  gt = f32[16,5] multiply(et, td), GONE
  gu = f32[16,5] add(gk, gt), GONE
"""
OF_TANH = """\
  uu = f32[16,5] multiply(u, u), GONE
  d = f32[16,5] negate(uu), GONE
  gh = f32[16,5] multiply(GU, d), GONE
"""
OF_SINE = """\
  d = f32[16,5] cosine(h), GONE
  gh = f32[16,5] multiply(GU, d), GONE
"""
END = """\
  gw = f32[4,5] dot(x, gh), lhs_contracting_dims={0}, rhs_contracting_dims={0}, GONE
  nw = f32[4,5] subtract(w, gw), AT8
  nv = f32[5,5] subtract(v, gv), AT8
  ROOT r = (f32[16,5], f32[4,5], f32[5,5]) tuple(OUT, nw, nv)
}
"""


def step(*, tanh: bool, flows: bool, more: str = "", out: str = "o"):
    forward, backward = (TANH, OF_TANH) if tanh else (SINE, OF_SINE)
    text = HEAD + forward + REST + (FURTHER if flows else "") + backward + more + END
    text = text.replace("GU", "gu" if flows else "gk").replace("OUT", out)
    for n in range(1, 9):
        text = text.replace(f"AT{n}", f'metadata={{source_file="net.py" source_line={n}}}')
    return read_module(text.replace("GONE", 'metadata={op_name="aten__mul"}'))


def told(a, b) -> str:
    found = explain_modules(a, b)
    assert found.proved
    return str(found.verdict).lower()


@pytest.mark.parametrize("turned", [False, True])
def test_gradients_that_are_cut_are_told_beside_another_function(turned: bool) -> None:
    sides = [step(tanh=True, flows=True), step(tanh=False, flows=False)]
    said = told(*(sides[::-1] if turned else sides))
    more, less = "ba" if turned else "ab"
    assert f"gradients flow further in {more} than in {less}" in said
    assert "tanh" in said


def test_another_function_alone_cuts_nothing() -> None:
    for flows in (True, False):
        sides = step(tanh=True, flows=flows), step(tanh=False, flows=flows)
        assert "flow further" not in told(*sides)
