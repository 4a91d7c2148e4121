"""A gradient goes back through a slice as a pad: both have one index, and are one cause."""

from __future__ import annotations

import pytest

from xlagraph.explain import explain_modules
from xlagraph.hlo import read_module

STEP = """\
HloModule step
ENTRY main {{
  x = f32[4,{size}] parameter(0)
  g = f32[4,{taken}] parameter(1)
  zero = f32[] constant(0)
  s = f32[4,{taken}] slice(x), slice={{[0:4], [{slice}]}}
  y = f32[4,{taken}] tanh(s)
  p = f32[4,{size}] pad(g, zero), padding=0_0x{padding}
  ROOT out = (f32[4,{taken}], f32[4,{size}]) tuple(y, p)
}}
"""


def said(*sides: tuple[str, str], taken: int = 4) -> list[str]:
    texts = (STEP.format(size=12, taken=taken, slice=s, padding=p) for s, p in sides)
    found = explain_modules(*map(read_module, texts))
    assert found.proved
    return [str(cause.title) for cause in found.causes]


@pytest.mark.parametrize(
    "sides",
    [
        (("2:6", "2_6"), ("5:9", "5_3")),
        (("0:8:2", "0_5_1"), ("3:11:2", "3_2_1")),
    ],
)
def test_a_pad_by_as_much_as_is_cut_is_told_with_the_slice(sides):
    (told,) = said(*sides)
    assert "a Python index is baked into 1 slice: " in told


def test_values_that_are_written_elsewhere_are_told_for_themselves():
    told = said(("2:6", "1_7"), ("5:9", "7_1"))
    assert len(told) == 2
    assert any("where values are written" in one for one in told)


def test_values_that_are_written_alone_are_told_so():
    (told,) = said(("2:6", "2_6"), ("2:6", "5_3"))
    assert "where values are written" in told
