"""Mixup: a batch that is added to itself in another order."""

import pytest

from xlagraph.explain import explain_modules
from xlagraph.hlo import read_module

STEP = """HloModule step

ENTRY main {{
  x = f32[4,8] parameter(0)
  w = f32[8,8] parameter(1)
  z = f32[4,8] parameter(2)
  rows = s32[4] parameter(3)
  s = f32[] parameter(4)
  t = f32[] parameter(5)
  ss = f32[4,8] broadcast(s), dimensions={{}}
  ts = f32[4,8] broadcast(t), dimensions={{}}
  k = f32[4,8] gather(z, rows), offset_dims={{1}}, collapsed_slice_dims={{0}},
    start_index_map={{0}}, index_vector_dim=1, slice_sizes={{1,8}}
  v = f32[4,8] divide(k, ts)
  u = f32[4,8] subtract(v, ss)
{mixed}
  h = f32[4,8] dot({batch}, w), lhs_contracting_dims={{1}}, rhs_contracting_dims={{0}}
  y = f32[4,8] tanh(h)
  ROOT r = (f32[4,8], f32[4,8]) tuple(y, u)
}}
"""
MIXED = """  other = f32[4,8] {other}
  own = f32[4,8] multiply(x, ss)
  part = f32[4,8] multiply(ts, other)
  m = f32[4,8] add(own, part)"""
FLIPPED = "reverse(x), dimensions={0}"
PICKED = (
    "gather(x, rows), offset_dims={1}, collapsed_slice_dims={0}, start_index_map={0}, "
    "index_vector_dim=1, slice_sizes={1,8}"
)


def told(other, *, is_turned=False):
    """What is said of a step that mixes a batch with this, and one that does not."""
    a = STEP.format(mixed=MIXED.format(other=other), batch="m")
    b = STEP.format(mixed="", batch="x")
    found = explain_modules(*map(read_module, (b, a) if is_turned else (a, b)))
    assert found.proved
    return [str(cause.in_short) for cause in found.causes]


@pytest.mark.parametrize("is_turned", [False, True])
@pytest.mark.parametrize("other", [FLIPPED, PICKED])
def test_a_batch_that_is_added_to_itself_in_another_order_is_mixup(other, is_turned):
    side = "B" if is_turned else "A"
    words = f"A batch is mixed with itself in another order, as by mixup, in {side} only"
    assert words in told(other, is_turned=is_turned)


@pytest.mark.parametrize("other", ["copy(z)", "sine(x)"])
def test_a_batch_that_is_added_to_something_else_is_none(other):
    assert not [one for one in told(other) if "mixup" in one]
