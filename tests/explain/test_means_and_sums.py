"""A mean that is a sum in the other version, and numbers that follow from it or do not."""

from __future__ import annotations

from xlagraph.explain import explain_modules
from xlagraph.hlo import read_module

STEP = """\
HloModule jit_step
add {{
  a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT c = f32[] add(a, b)
}}
ENTRY main {{
  x = f32[4] parameter(0)
  w = f32[4] parameter(1)
  zero = f32[] constant(0)
  four = f32[] constant(4)
  p = f32[4] multiply(x, w)
  e = f32[4] exponential(p)
  total = f32[] reduce(e, zero), dimensions={{0}}, to_apply=add
{loss}
  part = f32[] constant({part})
  parts = f32[4] broadcast(part), dimensions={{}}
  d = f32[4] multiply(e, parts)
  g = f32[4] multiply(d, x)
  rate = f32[] constant({rate})
  rates = f32[4] broadcast(rate), dimensions={{}}
  s = f32[4] multiply(g, rates)
  n = f32[4] subtract(w, s)
  ROOT r = (f32[], f32[4]) tuple(loss, n)
}}
"""
MEAN = "  loss = f32[] divide(total, four)"
SUM = "  loss = f32[] copy(total)"


def said(rate: str) -> tuple[str, int]:
    one = STEP.format(loss=MEAN, part="0.25", rate="0.03")
    other = STEP.format(loss=SUM, part="1", rate=rate)
    found = explain_modules(read_module(one, "a"), read_module(other, "b"))
    assert found.proved
    verdict = found.verdict
    return " ".join(map(str, (verdict.what, *verdict.notes))), len(found.causes)


def test_what_a_derivative_of_a_mean_is_divided_by_follows_from_it():
    told, causes = said("0.03")
    assert "mean(x) became sum(x)" in told
    assert causes == 1


def test_another_rate_beside_it_is_a_cause_of_its_own():
    told, causes = said("0.02")
    assert "mean(x) became sum(x)" in told
    assert "0.03 became 0.02" in told
    assert causes == 2
