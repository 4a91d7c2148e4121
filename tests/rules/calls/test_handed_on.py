"""Loops that carry more for a term of one side: the term is the cause, not the carrying."""

from __future__ import annotations

import pytest

from xlagraph.explain import explain_modules
from xlagraph.hlo import read_module


def loops(*, scaled: bool = True, dead: bool = False, last: str = "tanh"):
    """A loop that adds up and keeps a value, and one behind it that may multiply by that.

    Args:
        scaled: whether the second loop does, and carries the value for it.
        dead: a value is carried through the first loop that nobody needs.
        last: what is computed of the second loop's result.
    """
    first = f"(s32[], f32[8], f32[8], f32[8]{', f32[8]' * dead})"
    second = f"(s32[], f32[8]{', f32[8]' * scaled})"
    extra = "\n  e = f32[8] get-tuple-element(p), index=4" * dead
    factor = "\n  r = f32[8] get-tuple-element(q), index=2\n  v = f32[8] multiply(d, r)" * scaled
    text = f"""HloModule m

turn {{
  p = {first} parameter(0)
  i = s32[] get-tuple-element(p), index=0
  x = f32[8] get-tuple-element(p), index=1
  k = f32[8] get-tuple-element(p), index=2
  w = f32[8] get-tuple-element(p), index=3{extra}
  one = s32[] constant(1)
  j = s32[] add(i, one)
  f = f32[8] cosine(x)
  y = f32[8] add(x, w)
  ROOT t = {first} tuple(j, y, f, w{", e" * dead})
}}

more {{
  p = {first} parameter(0)
  i = s32[] get-tuple-element(p), index=0
  n = s32[] constant(3)
  ROOT c = pred[] compare(i, n), direction=LT
}}

back {{
  q = {second} parameter(0)
  i2 = s32[] get-tuple-element(q), index=0
  z = f32[8] get-tuple-element(q), index=1
  one2 = s32[] constant(1)
  j2 = s32[] add(i2, one2)
  d = f32[8] sine(z){factor}
  ROOT t2 = {second} tuple(j2, {"v, r" if scaled else "d"})
}}

less {{
  q = {second} parameter(0)
  i2 = s32[] get-tuple-element(q), index=0
  n2 = s32[] constant(3)
  ROOT c2 = pred[] compare(i2, n2), direction=LT
}}

ENTRY e {{
  a = f32[8] parameter(0)
  b = f32[8] parameter(1)
  o = s32[] constant(0)
  s = {first} tuple(o, a, b, b{", a" * dead})
  l = {first} while(s), condition=more, body=turn
  y1 = f32[8] get-tuple-element(l), index=1
  k1 = f32[8] get-tuple-element(l), index=2
  s2 = {second} tuple(o, y1{", k1" * scaled})
  l2 = {second} while(s2), condition=less, body=back
  y2 = f32[8] get-tuple-element(l2), index=1
  y3 = f32[8] {last}(y2)
  ROOT out = (f32[8], f32[8]) tuple(y3, k1)
}}
"""
    return read_module(text, "m")


def causes(a, b):
    explanation = explain_modules(a, b)
    assert explanation.proved
    return sorted(cause.kind.id for cause in explanation.causes)


@pytest.mark.parametrize("turned", [False, True])
def test_what_a_term_needs_is_carried_for_it(turned):
    pair = [loops(), loops(scaled=False)]
    assert causes(*(reversed(pair) if turned else pair)) == ["extra-subgraph"]


def test_what_is_carried_for_nothing_is_told_beside_another_cause():
    assert "loop-carry" in causes(loops(dead=True), loops())
    found = causes(loops(dead=True), loops(last="cosine"))
    assert len(found) == 2
    assert "loop-carry" in found


def test_what_is_carried_for_nothing_is_told_beside_a_term():
    found = causes(loops(dead=True), loops(scaled=False))
    assert "loop-carry" in found
    assert len(found) == 2
