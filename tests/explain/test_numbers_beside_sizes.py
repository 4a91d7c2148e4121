"""A number that somebody typed beside a size: which constants are its own, and which follow."""

from __future__ import annotations

import pytest

from xlagraph.explain import explain_modules
from xlagraph.hlo import read_module

STEP = """\
HloModule jit_step
sum {{
  a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT c = f32[] add(a, b)
}}
ENTRY main {{
  x = f32[{n},4] parameter(0)
  w = f32[4,5] parameter(1)
  zero = f32[] constant(0)
  weight = f32[] constant({weight})
  part = f32[] constant({part})
  h = f32[{n},5] dot(x, w), lhs_contracting_dims={{1}}, rhs_contracting_dims={{0}}
  ps = f32[{n},5] broadcast(part), dimensions={{}}
  hh = f32[{n},5] multiply(h, h)
  s = f32[] reduce(hh, zero), dimensions={{0,1}}, to_apply=sum
  ws = f32[] multiply(s, weight)
  e = f32[{n},5] multiply(h, ps)
  g = f32[4,5] dot(x, e), lhs_contracting_dims={{0}}, rhs_contracting_dims={{0}}
  v = f32[4,5] subtract(w, g)
  ROOT r = (f32[], f32[4,5]) tuple(ws, v)
}}
"""


def explained(a, b):
    texts = [STEP.format(n=n, weight=weight, part=part) for n, weight, part in (a, b)]
    found = explain_modules(*map(read_module, texts))
    assert found.proved
    return found


def test_a_typed_number_is_told_beside_a_size_with_what_follows_from_both():
    found = explained((16, 0.25, 0.25 / 3 / 16), (10, 0.5, 0.5 / 3 / 10))
    assert [str(cause.kind) for cause in found.causes] == ["input-shape", "constant-value"]
    assert "1 more constant in proportion to it and to the sizes" in str(found.causes[1].title)
    assert "0.25 became 0.5" in str(found.verdict)


@pytest.mark.parametrize(
    ("a", "b"),
    [
        ((16, 0.5, 0.03), (8, 0.25, 0.03)),  # in the ratio of the sizes
        ((16, 3, 0.03), (10, 5, 0.03)),  # a bound, perhaps
        ((16, 0.123456, 0.03), (10, 0.765432, 0.03)),  # computed, of who knows what
    ],
)
def test_what_may_follow_from_a_size_is_told_as_a_further_cause(a, b):
    (note,) = explained(a, b).verdict.notes
    assert str(note).startswith("1 further cause: ")


def test_a_number_in_no_such_ratio_is_one_of_its_own():
    found = explained((16, 0.25, 0.3 / 7), (10, 0.5, 0.4 / 7))
    assert len(found.causes) == 3
