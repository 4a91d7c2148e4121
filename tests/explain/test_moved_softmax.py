"""Routing: a softmax before the top-k, or behind it."""

from __future__ import annotations

from xlagraph.explain import explain_modules
from xlagraph.hlo import read_module

TEXT = """\
HloModule m
less {
  p = f32[] parameter(0)
  q = f32[] parameter(1)
  k = s32[] parameter(2)
  l = s32[] parameter(3)
  ROOT c = pred[] compare(p, q), direction=GT
}
sum {
  p = f32[] parameter(0)
  q = f32[] parameter(1)
  ROOT s = f32[] add(p, q)
}
most {
  p = f32[] parameter(0)
  q = f32[] parameter(1)
  ROOT s = f32[] maximum(p, q)
}
ENTRY e {
  o = f32[] constant(0)
  g = f32[4,8] parameter(0)
  w = f32[8,6] parameter(1)
  x = f32[4,6] dot(g, w), lhs_contracting_dims={1}, rhs_contracting_dims={0}
"""


def softmax(name, value, size):
    return f"""\
  {name}_m = f32[4] reduce({value}, o), dimensions={{1}}, to_apply=most
  {name}_b = f32[4,{size}] broadcast({name}_m), dimensions={{0}}
  {name}_d = f32[4,{size}] subtract({value}, {name}_b)
  {name}_e = f32[4,{size}] exponential({name}_d)
  {name}_s = f32[4] reduce({name}_e, o), dimensions={{1}}, to_apply=sum
  {name}_t = f32[4,{size}] broadcast({name}_s), dimensions={{0}}
  {name} = f32[4,{size}] divide({name}_e, {name}_t)
"""


def module(*pieces, last):
    root = f"  y = f32[4,6] tanh({last})\n  ROOT z = (f32[4,6]) tuple(y)\n}}\n"
    return read_module(TEXT + "".join(pieces) + root)


def top_k(value, size=6):
    return f"""\
  i = s32[4,6] iota(), iota_dimension=1
  k = (f32[4,6], s32[4,6]) sort({value}, i), dimensions={{1}}, to_apply=less
  v = f32[4,6] get-tuple-element(k), index=0
  h = f32[4,{size}] slice(v), slice={{[0:4], [0:{size}]}}
"""


def said(first, second):
    return str(explain_modules(first, second).verdict.what)


BEFORE = module(softmax("p", "x", 6), top_k("p"), last="h")
BEHIND = module(top_k("x"), softmax("p", "h", 6), last="p")


def test_the_side_of_the_top_k_is_named():
    """Of all values: a softmax of fewer is another one."""
    there = "Softmax comes before the top-k in A and behind it in B; "
    assert there in str(explain_modules(BEFORE, BEHIND).verdict)
    assert explain_modules(BEFORE, BEHIND).evaluated
    assert "top-k in B and behind it in A; " in str(explain_modules(BEHIND, BEFORE).verdict)


def test_a_softmax_that_one_side_has_not_did_not_move():
    none = module(top_k("x"), last="h")
    both = module(softmax("p", "x", 6), top_k("p"), softmax("r", "h", 6), last="r")
    for first, second in ((BEFORE, none), (none, BEHIND), (BEFORE, both), (both, BEHIND)):
        assert "the top-k" not in said(first, second)
