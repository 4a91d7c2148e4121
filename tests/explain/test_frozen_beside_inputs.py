"""Layers that one side freezes beside a tensor that the other one only reads: two edits."""

from __future__ import annotations

import pytest

from xlagraph.explain import explain_modules
from xlagraph.hlo import read_module

STEP = """\
HloModule IrToHlo.{number}
sum {{
  a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT c = f32[] add(a, b)
}}
ENTRY main {{
  x = f32[16,4] parameter(0)
  w = f32[4,5] parameter(1)
  v = f32[5,3] parameter(2)
  rate = f32[] parameter(3)
{inputs}
  zero = f32[] constant(0)
  h = f32[16,5] dot(x, w), lhs_contracting_dims={{1}}, rhs_contracting_dims={{0}}
  t = f32[16,5] tanh(h)
  o = f32[16,3] dot(t, v), lhs_contracting_dims={{1}}, rhs_contracting_dims={{0}}
{loss}
  gv = f32[5,3] dot(t, e), lhs_contracting_dims={{0}}, rhs_contracting_dims={{0}}
  rv = f32[5,3] broadcast(rate), dimensions={{}}
  dv = f32[5,3] multiply(gv, rv)
  nv = f32[5,3] subtract(v, dv)
{backward}
  ROOT r = ({shapes}) tuple({given})
}}
"""
BACKWARD = """\
  gt = f32[16,5] dot(e, v), lhs_contracting_dims={1}, rhs_contracting_dims={1}
  gw = f32[4,5] dot(x, gt), lhs_contracting_dims={0}, rhs_contracting_dims={0}
  rw = f32[4,5] broadcast(rate), dimensions={}
  bw = f32[4,5] add(m, gw)
  dw = f32[4,5] multiply(bw, rw)
  nw = f32[4,5] subtract(w, dw)"""
PLAIN = "  e = f32[16,3] sine(o)"
WEIGHED = "  k = f32[16,3] multiply(o, y)\n  e = f32[16,3] sine(k)"
FULL = ("f32[16,3], f32[5,3], f32[4,5], f32[4,5]", "e, nv, nw, bw")
FROZEN = ("f32[16,3], f32[5,3]", "e, nv")


def step(*, trains, reads, number=1):
    inputs = ["  m = f32[4,5] parameter(4)"] if trains else []
    inputs += [f"  y = f32[16,3] parameter({4 + trains})"] if reads else []
    shapes, given = FULL if trains else FROZEN
    text = STEP.format(
        number=number,
        inputs="\n".join(inputs),
        loss=WEIGHED if reads else PLAIN,
        backward=BACKWARD if trains else "",
        shapes=shapes,
        given=given,
    )
    return read_module(text)


@pytest.mark.parametrize("turned", [False, True])
def test_a_frozen_layer_and_a_tensor_that_is_read_are_two_edits(turned):
    sides = [step(trains=True, reads=False), step(trains=False, reads=True, number=2)]
    found = explain_modules(*(sides[::-1] if turned else sides))
    assert found.proved
    assert {str(cause.kind) for cause in found.causes} == {"added-input", "newly-updated"}
    told = str(found.verdict)
    assert "trained in some steps only" in told.lower()
    assert "tensors that others do not" in told


def test_momentum_belongs_to_the_layer_that_is_trained():
    found = explain_modules(step(trains=True, reads=False), step(trains=False, reads=False))
    assert found.proved
    assert [str(cause.kind) for cause in found.causes] == ["newly-updated"]


def test_what_is_trained_by_the_side_that_reads_more_comes_with_it():
    found = explain_modules(step(trains=False, reads=False), step(trains=True, reads=True))
    assert found.proved
    assert str(found.causes[0].kind) == "added-input"
