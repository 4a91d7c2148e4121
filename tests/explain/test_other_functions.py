"""One function of a value for another, with what both have in common."""

from __future__ import annotations

from xlagraph.explain import explain_modules
from xlagraph.hlo import read_module

STEP = """\
HloModule IrToHlo.9
ENTRY main {{
  x = f32[16,4] parameter(0)
  w = f32[4,5] parameter(1)
  half = f32[] constant(0.5)
  hs = f32[16,5] broadcast(half), dimensions={{}}
  one = f32[] constant(1)
  os = f32[16,5] broadcast(one), dimensions={{}}
  h = f32[16,5] dot(x, w), lhs_contracting_dims={{1}}, rhs_contracting_dims={{0}}
  g = f32[16,5] negate(h)
{body}
  p = f32[16,5] multiply(g, f)
  ROOT r = (f32[16,5], f32[16,5]) tuple(p, g)
}}
"""
BY_ERF = """\
  q = f32[16,5] multiply(h, h)
  e = f32[16,5] exponential(q)
  m = f32[16,5] multiply(h, e)
  t = f32[16,5] erf(h)
  n = f32[16,5] multiply(hs, t)
  f = f32[16,5] add(n, m)
"""
BY_TANH = """\
  t = f32[16,5] tanh(h)
  s = f32[16,5] multiply(t, t)
  c = f32[16,5] subtract(os, s)
  q = f32[16,5] multiply(hs, h)
  m = f32[16,5] multiply(q, c)
  n = f32[16,5] multiply(hs, t)
  f = f32[16,5] add(n, m)
"""


def step(body: str):
    return read_module(STEP.format(body=body))


def test_another_function_of_one_value_is_one_cause():
    found = explain_modules(step(BY_ERF), step(BY_TANH))
    assert found.proved
    assert [str(cause.kind) for cause in found.causes] == ["replaced-subgraph"]


def test_another_number_in_the_same_function_is_that_number():
    other = STEP.replace("constant(0.5)", "constant(0.25)")
    b = read_module(other.format(body=BY_TANH))
    found = explain_modules(step(BY_TANH), b)
    assert [str(cause.kind) for cause in found.causes] == ["constant-value"]


def test_functions_that_change_places_are_no_other_ones():
    text = """HloModule step

ENTRY main {{
  x = f32[4] parameter(0)
  a = f32[4] sine(x)
  b = f32[4] tanh(x)
  c = f32[4] exponential(x)
  m = f32[4] minimum({first}, a)
  n = f32[4] minimum({second}, m)
  ROOT r = f32[4] cosine(n)
}}
"""
    found = explain_modules(
        read_module(text.format(first="b", second="c")),
        read_module(text.format(first="c", second="b")),
    )
    assert {cause.kind.id for cause in found.causes} == {"reordered-sum"}
