"""Clipping by a norm beside another edit, in texts without lines."""

from __future__ import annotations

from xlagraph.explain import explain_modules
from xlagraph.hlo import read_module
from xlagraph.message import words

STEP = """\
HloModule IrToHlo.9
sum {{
  a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT c = f32[] add(a, b)
}}
ENTRY main {{
  x = f32[16,4] parameter(0)
  w = f32[4,5] parameter(1)
  v = f32[5,3] parameter(2)
  limit = f32[] parameter(3)
  zero = f32[] constant(0)
  h = f32[16,5] dot(x, w), lhs_contracting_dims={{1}}, rhs_contracting_dims={{0}}
{before}
  o = f32[16,3] dot({input}, v), lhs_contracting_dims={{1}}, rhs_contracting_dims={{0}}
  e = f32[16,3] sine(o)
  gv = f32[5,3] dot(h, e), lhs_contracting_dims={{0}}, rhs_contracting_dims={{0}}
  gh = f32[16,5] dot(e, v), lhs_contracting_dims={{1}}, rhs_contracting_dims={{1}}
  gw = f32[4,5] dot(x, gh), lhs_contracting_dims={{0}}, rhs_contracting_dims={{0}}
{clip}
  nw = f32[4,5] subtract(w, {w})
  nv = f32[5,3] subtract(v, {v})
  bound = f32[] tanh(limit)
  ROOT r = (f32[16,3], f32[4,5], f32[5,3], f32[]) tuple(o, nw, nv, bound)
}}
"""
CLIP = """\
  qw = f32[4,5] multiply(gw, gw)
  nqw = f32[] reduce(qw, zero), dimensions={0,1}, to_apply=sum
  qv = f32[5,3] multiply(gv, gv)
  nqv = f32[] reduce(qv, zero), dimensions={0,1}, to_apply=sum
  n = f32[] add(nqw, nqv)
  root = f32[] sqrt(n)
  f = f32[] divide(limit, root)
  fw = f32[4,5] broadcast(f), dimensions={}
  cw = f32[4,5] multiply(gw, fw)
  fv = f32[5,3] broadcast(f), dimensions={}
  cv = f32[5,3] multiply(gv, fv)
"""


def step(*, clips: bool, scales: bool = False, clip: str = CLIP):
    return read_module(
        STEP.format(
            before="  t = f32[16,5] exponential(h)" if scales else "",
            input="t" if scales else "h",
            clip=clip if clips else "",
            w="cw" if clips else "gw",
            v="cv" if clips else "gv",
        )
    )


def kinds(a, b) -> set[str]:
    found = explain_modules(a, b)
    assert found.proved
    return {str(cause.kind) for cause in found.causes}


def test_clipping_is_told_beside_another_piece():
    for a, b in ((False, True), (True, False)):
        found = kinds(step(clips=a, scales=a), step(clips=b, scales=b))
        assert found == {"clipping", "extra-subgraph"}


def test_values_that_are_scaled_by_a_fixed_number_are_not_clipped():
    halved = CLIP.replace("divide(limit, root)", "add(limit, limit)")
    other = step(clips=True, scales=True, clip=halved)
    assert "clipping" not in kinds(step(clips=False), other)


CUT = """\
  low = f32[] negate(limit)
  lw = f32[4,5] broadcast(low), dimensions={}
  hw = f32[4,5] broadcast(limit), dimensions={}
  cw = f32[4,5] clamp(lw, gw, hw)
  lv = f32[5,3] broadcast(low), dimensions={}
  hv = f32[5,3] broadcast(limit), dimensions={}
  mv = f32[5,3] maximum(lv, gv)
  cv = f32[5,3] minimum(hv, mv)
"""


def shorts(a, b) -> list[str]:
    found = explain_modules(a, b)
    assert found.proved
    return [words(cause.short or cause.title) for cause in found.causes]


def test_clipping_by_norm_and_by_value_is_one_cause_beside_another():
    by_norm, by_value = step(clips=True), step(clips=True, clip=CUT)
    assert shorts(by_norm, by_value) == ["gradients are clipped by their norm in A, by value in B"]
    assert shorts(by_value, by_norm) == ["gradients are clipped by their norm in B, by value in A"]
    scaled = step(clips=True, scales=True, clip=CUT)
    assert kinds(by_norm, scaled) == {"clipping", "extra-subgraph"}


def test_what_is_scaled_by_a_fixed_number_is_not_clipped_by_its_norm():
    halved = CLIP.replace("divide(limit, root)", "add(limit, limit)")
    found = explain_modules(step(clips=True, clip=halved), step(clips=True, clip=CUT))
    assert not any("norm" in words(cause.short) for cause in found.causes)


def test_values_that_both_cut_off_are_no_clipping_by_value_of_one():
    found = explain_modules(step(clips=True, clip=CUT), step(clips=True, scales=True, clip=CUT))
    assert [str(cause.kind) for cause in found.causes] == ["extra-subgraph"]
