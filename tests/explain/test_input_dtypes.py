"""An input of another dtype is said as such, and nothing else is taken for one."""

from __future__ import annotations

import pytest

from xlagraph.cause.model import Context
from xlagraph.explain import explain_modules
from xlagraph.hlo import read_module
from xlagraph.tensors import Tensor

PLAIN = """HloModule step

ENTRY main {
  x = f32[4,3] parameter(0)
  w = f32[4,3] parameter(1)
  y = f32[4,3] multiply(x, w)
  ROOT z = f32[4,3] tanh(y)
}
"""
CONVERTED = PLAIN.replace(
    "  x = f32[4,3] parameter(0)\n", "  n = s64[4,3] parameter(0)\n  x = f32[4,3] convert(n)\n"
)
COUNTED = CONVERTED.replace("ROOT z = f32[4,3] tanh(y)", "t = f32[4,3] tanh(y)").replace(
    "\n}", "\n  m = s64[4,3] add(n, n)\n  ROOT z = (f32[4,3], s64[4,3]) tuple(t, m)\n}"
)
WIDER = CONVERTED.replace("s64[4,3] parameter", "s64[3,4] parameter").replace(
    "  x = f32[4,3] convert(n)", "  c = f32[3,4] convert(n)\n  x = f32[4,3] reshape(c)"
)


def causes(first: str, second: str, **contexts: Context) -> list[str]:
    explanation = explain_modules(read_module(first, "a"), read_module(second, "b"), **contexts)
    return [f"{cause.kind} {cause.title!s}" for cause in explanation.causes if cause.proved]


@pytest.mark.parametrize("number", ["s64", "s32", "pred", "u8"])
def test_an_input_that_is_only_converted_has_another_dtype(number):
    (cause,) = causes(PLAIN, CONVERTED.replace("s64", number))
    assert cause.startswith(f"dtype an input has another dtype (f32 -> {number}): B converts")
    (back,) = causes(CONVERTED.replace("s64", number), PLAIN)
    assert back.startswith(f"dtype an input has another dtype ({number} -> f32): A converts")


def test_numbers_that_are_also_used_as_they_are_are_another_input():
    assert not any(cause.startswith("dtype") for cause in causes(PLAIN, COUNTED))


def test_an_input_of_other_dimensions_is_another_input():
    assert not any(cause.startswith("dtype") for cause in causes(PLAIN, WIDER))


def test_two_tensors_by_name_are_two_inputs():
    first = Context(parameters={0: Tensor("", "scores")})
    second = Context(parameters={0: Tensor("", "ranks")})
    found = causes(PLAIN, CONVERTED, context_a=first, context_b=second)
    assert not any(cause.startswith("dtype") for cause in found)
