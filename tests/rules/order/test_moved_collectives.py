"""Gradients that are summed over the devices before they are clipped, or behind that."""

from __future__ import annotations

import pytest

from xlagraph.cause.model import Explanation
from xlagraph.explain import explain_modules
from xlagraph.hlo import read_module

HEAD = """HloModule step

add { p = f32[] parameter(0) q = f32[] parameter(1) ROOT s = f32[] add(p, q) }

ENTRY main {
  g = f32[4,8] parameter(0)
  w = f32[4,8] parameter(1)
  limit = f32[] parameter(2)
  zero = f32[] constant(0)
  devices = f32[] constant(4)
  fours = f32[4,8] broadcast(devices), dimensions={}
  t = f32[4,8] tanh(g)
"""
SUM = """  r = f32[4,8] all-reduce({0}), channel_id=1, replica_groups={{{{0,1,2,3}}}}, to_apply=add
  m = f32[4,8] divide(r, fours)
"""
CLIP = """  q = f32[4,8] multiply({0}, {0})
  n = f32[] reduce(q, zero), dimensions={{0,1}}, to_apply=add
  d = f32[] sqrt(n)
  f = f32[] divide(limit, d)
  fs = f32[4,8] broadcast(f), dimensions={{}}
  c = f32[4,8] multiply({0}, fs)
"""
END = "  ROOT new = f32[4,8] subtract(w, {0})\n}}\n"
SUM_FIRST = HEAD + SUM.format("t") + CLIP.format("m") + END.format("c")
CLIP_FIRST = HEAD + CLIP.format("t") + SUM.format("c") + END.format("m")


def explained(a: str, b: str) -> Explanation:
    return explain_modules(read_module(a, "m"), read_module(b, "m"))


@pytest.mark.parametrize("is_turned", [False, True])
def test_the_order_of_sum_and_clipping_is_told(is_turned: bool) -> None:
    pair = (CLIP_FIRST, SUM_FIRST) if is_turned else (SUM_FIRST, CLIP_FIRST)
    explanation = explained(*pair)
    assert explanation.proved
    (cause,) = explanation.causes
    one, other = "BA" if is_turned else "AB"
    told = f"Gradients are summed over the devices before they are clipped in {one}, behind that in"
    assert str(cause.in_short.sentence) == f"{told} {other}"


@pytest.mark.parametrize(
    "b",
    [
        CLIP_FIRST.replace("divide(limit, d)", "add(limit, limit)"),  # scaled by a number
        CLIP_FIRST.replace("divide(r, fours)", "copy(r)"),  # no mean
        CLIP_FIRST.replace("{{0,1,2,3}}", "{{0,1},{2,3}}"),  # over others
        HEAD + CLIP.format("t") + END.format("c"),  # no sum at all
        HEAD + SUM.format("t") + END.format("m"),  # no clipping
    ],
)
def test_what_differs_otherwise_is_not_told_by_the_order(b: str) -> None:
    for pair in ((SUM_FIRST, b), (b, SUM_FIRST)):
        causes = explained(*pair).causes
        assert all("over the devices" not in str(cause.in_short) for cause in causes)
