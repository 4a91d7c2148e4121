"""What a value's sign, known from how it is made, leaves unasked: the guards of ``xlogy``."""

from __future__ import annotations

import pytest

from xlagraph.diff import diff_modules
from xlagraph.evaluate import same_values
from xlagraph.hlo import read_module

STEP = """HloModule m

add {{
  p = f32[] parameter(0)
  q = f32[] parameter(1)
  ROOT s = f32[] add(p, q)
}}

ENTRY main {{
  x = f32[6] parameter(0)
  g = f32[6] parameter(1)
  zero = f32[] constant(0)
  zeros = f32[6] broadcast(zero), dimensions={{}}
  one = f32[] constant(1)
  ones = f32[6] broadcast(one), dimensions={{}}
  two = f32[] constant(2)
  twos = f32[6] broadcast(two), dimensions={{}}
  e = f32[6] exponential(x)
  square = f32[6] power(x, twos)
  kernel = f32[6] add(square, ones)
  total = f32[] reduce(e, zero), dimensions={{0}}, to_apply=add
  totals = f32[6] broadcast(total), dimensions={{}}
  share = f32[6] divide(e, totals)
  large = f32[6] maximum(x, zeros)
  l = f32[6] log({value})
  m = f32[6] multiply({factor}, l)
  {guard}
  ROOT r = f32[6] add({last}, ones)
}}
"""
GUARD = """nan = pred[6] compare({0}, {0}), direction=NE
  none = pred[6] compare({0}, zeros), direction=EQ
  k = f32[6] select(none, zeros, m)
  n = f32[6] select(nan, {0}, k)"""


def step(value: str, factor: str, *, guarded: bool) -> str:
    guard, last = (GUARD.format(factor), "n") if guarded else ("", "m")
    return STEP.format(value=value, factor=factor, guard=guard, last=last)


@pytest.mark.parametrize(
    ("value", "factor", "are_same"),
    [
        ("share", "share", True),  # an entropy of shares
        ("kernel", "kernel", True),
        ("kernel", "g", True),  # its derivative: of a gradient 0 nothing is left
        ("square", "square", False),  # may be 0
        ("large", "large", False),
        ("square", "g", False),  # 0 times what is infinite is no number
    ],
)
def test_zero_is_asked_for_in_vain_where_it_cannot_come(value, factor, are_same):
    texts = (step(value, factor, guarded=guarded) for guarded in (False, True))
    found = same_values(diff_modules(*map(read_module, texts)))
    assert (found is not None) == are_same
