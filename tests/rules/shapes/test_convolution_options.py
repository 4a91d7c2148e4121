"""An option of a convolution comes before the sizes that suit it."""

from __future__ import annotations

from xlagraph.explain import explain_modules
from xlagraph.hlo import read_module


def step(dilation: int, *, pad: int | None = None, beside: int = 2, taps: int = 3) -> str:
    """A causal convolution, padded by what its dilation needs, and another pad beside it."""
    left = (taps - 1) * dilation if pad is None else pad
    size, out = 12 + left, 12 + left - (taps - 1) * dilation
    window = f"size={taps} rhs_dilate={dilation}" if dilation > 1 else f"size={taps}"
    return f"""HloModule step

ENTRY main {{
  x = f32[2,4,12] parameter(0)
  w = f32[4,4,{taps}] parameter(1)
  zero = f32[] constant(0)
  p = f32[2,4,{size}] pad(x, zero), padding=0_0x0_0x{left}_0
  c = f32[2,4,{out}] convolution(p, w), window={{{window}}}, dim_labels=bf0_oi0->bf0
  t = f32[2,4,{out}] tanh(c)
  q = f32[2,4,{12 + beside}] pad(x, zero), padding=0_0x0_0x{beside}_0
  e = f32[2,4,{12 + beside}] exponential(q)
  ROOT r = (f32[2,4,{out}], f32[2,4,{12 + beside}]) tuple(t, e)
}}
"""


def told(first: str, second: str) -> dict[str, str]:
    """The causes of a proof: kinds, and what is said of them."""
    explanation = explain_modules(read_module(first, "a"), read_module(second, "b"))
    assert explanation.proved
    return {cause.kind.id: str(cause.in_short) for cause in explanation.causes}


def test_padding_that_suits_the_dilation_is_told_with_it():
    found = told(step(2), step(3))
    assert found == {"convolution-option": "a convolution's dilation: 2 became 3"}


def test_a_dilation_of_one_stands_in_no_window():
    found = told(step(1), step(2))
    assert found == {"convolution-option": "a convolution's dilation: 1 became 2"}


def test_padding_of_other_values_is_a_cause_of_its_own():
    found = told(step(2), step(3, beside=5))
    assert set(found) == {"convolution-option", "python-index"}
    assert found["python-index"] == "the amount of padding changes from step to step"


def test_weights_of_another_size_do_not_follow_from_a_dilation():
    assert "input-shape" in told(step(2), step(1, taps=5))


def test_padding_without_another_option_stays_what_it_was():
    assert list(told(step(2, pad=4), step(2, pad=6))) == ["python-index"]


def strided(stride: int) -> str:
    """a convolution that takes every place, or every second one, and what is computed of it."""
    out = 12 // stride
    window = f"window={{size=1 stride={stride}}}, " if stride > 1 else "window={size=1}, "
    return f"""HloModule step

ENTRY main {{
  x = f32[2,4,12] parameter(0)
  w = f32[4,4,1] parameter(1)
  c = f32[2,4,{out}] convolution(x, w), {window}dim_labels=bf0_oi0->bf0
  ROOT t = f32[2,4,{out}] tanh(c)
}}
"""


def test_an_option_that_makes_another_size_is_told_by_that():
    assert list(told(strided(1), strided(2))) == ["attribute"]
