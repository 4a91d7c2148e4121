"""A carried state that one side begins from a weight: its optimizer's state is no other cause."""

from __future__ import annotations

import pytest

from xlagraph.explain import explain_modules
from xlagraph.hlo import read_module

BODY = """\
  h = f32[5,3] dot(x, w), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  t = f32[5,3] tanh(h)
  y = f32[5,3] multiply(t, s)
  zero = f32[] constant(0)
  loss = f32[] reduce(y, zero), dimensions={0,1}, to_apply=add
  gw = f32[4,3] dot(x, s), lhs_contracting_dims={0}, rhs_contracting_dims={0}
  nw = f32[4,3] subtract(w, gw)
  ns = f32[5,3] sine(y)
"""
ADD = """\
HloModule m
add {
  p = f32[] parameter(0)
  q = f32[] parameter(1)
  ROOT s = f32[] add(p, q)
}
"""
FRESH = f"""{ADD}\
ENTRY main {{
  w = f32[4,3] parameter(0)
  x = f32[5,4] parameter(1)
  start = f32[3] parameter(2)
  m = f32[3] parameter(3)
  s = f32[5,3] broadcast(start), dimensions={{1}}
{BODY}\
  g = f32[3] reduce(t, zero), dimensions={{0}}, to_apply=add
  nine = f32[] constant(0.9)
  nines = f32[3] broadcast(nine), dimensions={{}}
  d = f32[3] multiply(m, nines)
  nm = f32[3] add(d, g)
  nstart = f32[3] subtract(start, nm)
  ROOT r = (f32[], f32[4,3], f32[5,3], f32[3], f32[3]) tuple(loss, nw, ns, nstart, nm)
}}
"""
CARRIED = f"""{ADD}\
ENTRY main {{
  w = f32[4,3] parameter(0)
  x = f32[5,4] parameter(1)
  s = f32[5,3] parameter(2)
{BODY}\
  ROOT r = (f32[], f32[4,3], f32[5,3]) tuple(loss, nw, ns)
}}
"""


@pytest.mark.parametrize("turned", [False, True])
def test_a_state_that_starts_from_a_weight_is_one_cause(turned):
    texts = (CARRIED, FRESH) if turned else (FRESH, CARRIED)
    found = explain_modules(*(read_module(text, "m") for text in texts))
    side = "B" if turned else "A"
    assert f"carried state starts from a weight in {side}, which is trained there" in str(
        found.verdict.what
    )
    assert "torch.where(is_first, start, state)" in str(found.verdict.fix)
    assert not any("ptimizer state came into being" in str(note) for note in found.verdict.notes)
