"""A loop that carries more values on one side, and computes one of them in another way."""

from __future__ import annotations

from xlagraph.explain import explain_modules
from xlagraph.hlo import read_module

SCAN = """\
HloModule jit_scan
body {{
  s = ({state}) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  one = s32[] constant(1)
  j = s32[] add(i, one)
  v = f32[6] get-tuple-element(s), index=1
  d = f32[6] get-tuple-element(s), index=2
  t = f32[6] tanh(d)
{used}  w = f32[6] multiply(v, {factor})
  n = f32[6] add(w, d)
  ROOT r = ({state}) tuple(j, n, d{next})
}}
condition {{
  s = ({state}) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  eight = s32[] constant(8)
  ROOT c = pred[] compare(i, eight), direction=LT
}}
ENTRY main {{
  v = f32[6] parameter(0)
  d = f32[6] parameter(1)
  zero = s32[] constant(0)
  f = f32[] constant(1)
  ones = f32[6] broadcast(f), dimensions={{}}
  s = ({state}) tuple(zero, v, d{first})
  l = ({state}) while(s), condition=condition, body=body
  ROOT o = f32[6] get-tuple-element(l), index=1
}}
"""
PLAIN = SCAN.format(state="s32[], f32[6], f32[6]", used="", factor="t", next="", first="")
CARRIED = SCAN.format(
    state="s32[], f32[6], f32[6], f32[6]",
    used="  k = f32[6] get-tuple-element(s), index=3\n",
    factor="k",
    next=", t",
    first=", ones",
)


def test_what_a_loop_carries_and_takes_from_there_is_told() -> None:
    found = explain_modules(read_module(PLAIN), read_module(CARRIED))
    told = str(found.verdict.what)
    assert told == "A loop uses 1 value of the turn before in B, of the same turn in A."


def test_another_formula_in_a_loop_that_carries_as_much_is_no_matter_of_carrying() -> None:
    other = PLAIN.replace("multiply(v, t)", "multiply(v, d)")
    found = explain_modules(read_module(PLAIN), read_module(other))
    assert "carries" not in str(found.verdict.what)
