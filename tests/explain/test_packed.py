"""Weights that two versions keep in other tensors."""

from __future__ import annotations

from xlagraph.explain import explain_modules
from xlagraph.hlo import read_module

APART = """\
HloModule m
ENTRY main {
  q = f32[4,6] parameter(0)
  k = f32[4,2] parameter(1)
  x = f32[5,4] parameter(2)
  one = f32[5,6] dot(x, q), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  two = f32[5,2] dot(x, k), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  t = f32[5,6] tanh(one)
  s = f32[5,2] sine(two)
  gq = f32[4,6] dot(x, t), lhs_contracting_dims={0}, rhs_contracting_dims={0}
  gk = f32[4,2] dot(x, s), lhs_contracting_dims={0}, rhs_contracting_dims={0}
  nq = f32[4,6] subtract(q, gq)
  nk = f32[4,2] subtract(k, gk)
  ROOT r = (f32[4,6], f32[4,2]) tuple(nq, nk)
}
"""
FUSED = """\
HloModule m
ENTRY main {
  w = f32[4,8] parameter(0)
  x = f32[5,4] parameter(1)
  both = f32[5,8] dot(x, w), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  one = f32[5,6] slice(both), slice={[0:5], [0:6]}
  two = f32[5,2] slice(both), slice={[0:5], [6:8]}
  t = f32[5,6] tanh(one)
  s = f32[5,2] sine(two)
  g = f32[5,8] concatenate(t, s), dimensions={1}
  gw = f32[4,8] dot(x, g), lhs_contracting_dims={0}, rhs_contracting_dims={0}
  nw = f32[4,8] subtract(w, gw)
  ROOT r = (f32[4,8]) tuple(nw)
}
"""


def test_fused_weights_are_weights_in_other_tensors():
    found = explain_modules(read_module(APART, "m"), read_module(FUSED, "m"))
    told = " ".join(map(str, (found.verdict.what, *found.verdict.notes)))
    assert found.same
    assert "for equal weights" in told
    assert "f32[4,8] of B is f32[4,6], f32[4,2] of A in one" in told
    other = FUSED.replace("s = f32[5,2] sine(two)", "s = f32[5,2] cosine(two)")
    found = explain_modules(read_module(APART, "m"), read_module(other, "m"))
    assert not found.same
    told = str(found.verdict.what)
    assert "kept in other tensors, of as many numbers" in told
    assert "f32[4,6], f32[4,2] became f32[4,8]" in told


def test_weights_of_more_numbers_are_not():
    wider = FUSED.replace("[4,8]", "[4,9]").replace("[5,8]", "[5,9]")
    wider = wider.replace("[6:8]", "[6:9]").replace("f32[5,2]", "f32[5,3]")
    found = explain_modules(read_module(APART, "m"), read_module(wider, "m"))
    assert "kept in other tensors" not in str(found.verdict.what)
