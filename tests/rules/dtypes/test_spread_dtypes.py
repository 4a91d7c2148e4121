"""What is computed with an input of another dtype, before it is converted, follows from that."""

from __future__ import annotations

import pytest

from xlagraph.cause.model import Context
from xlagraph.explain import explain_modules
from xlagraph.hlo import read_module
from xlagraph.tensors import Tensor

FRACTIONS = """HloModule step

ENTRY main {
  n = f32[6] parameter(0)
  three = f32[] parameter(1)
  one = f32[] constant(1)
  scaled = f32[] multiply(three, one)
  threes = f32[6] broadcast(scaled), dimensions={}
  less = f32[6] subtract(n, threes)
  two = f32[] parameter(2)
  twos = f32[6] broadcast(two), dimensions={}
  half = f32[6] divide(less, twos)
  p = f32[6] parameter(3)
  error = f32[6] subtract(p, half)
  ROOT z = (f32[6], f32[6]) tuple(error, half)
}
"""
"""``p - (n - 3) / 2`` as torch_xla lowers it."""
WHOLE = """HloModule step

ENTRY main {
  n = s64[6] parameter(0)
  three = s64[] parameter(1)
  one = s64[] constant(1)
  scaled = s64[] multiply(three, one)
  threes = s64[6] broadcast(scaled), dimensions={}
  less = s64[6] subtract(n, threes)
  typed = f32[6] convert(less)
  two = s64[] parameter(2)
  divisor = f32[] convert(two)
  twos = f32[6] broadcast(divisor), dimensions={}
  half = f32[6] divide(typed, twos)
  p = f32[6] parameter(3)
  error = f32[6] subtract(p, half)
  ROOT z = (f32[6], f32[6]) tuple(error, half)
}
"""
"""The same of whole numbers: those of Python are whole numbers, too."""
COMPARED = """HloModule step

ENTRY main {
  n = f32[6] parameter(0)
  least = f32[] parameter(1)
  bound = f32[6] broadcast(least), dimensions={}
  is_more = pred[6] compare(n, bound), direction=GT
  p = f32[6] parameter(2)
  q = f32[6] negate(p)
  ROOT z = f32[6] select(is_more, p, q)
}
"""
"""Nothing is converted."""
OTHER_STEP = WHOLE.replace("s64[6] subtract", "s64[6] add")
OTHER_NUMBER = WHOLE.replace("constant(1)", "constant(2)")
MORE = WHOLE.replace(
    "error = f32[6] subtract(p, half)",
    "m = f32[6] convert(n)\n  e = f32[6] subtract(p, half)\n  error = f32[6] add(e, m)",
)
"""The input is used once more."""


def causes(first: str, second: str, **contexts: Context) -> list[str]:
    explanation = explain_modules(read_module(first, "a"), read_module(second, "b"), **contexts)
    assert explanation.proved
    return [f"{cause.kind} {cause.title!s}" for cause in explanation.causes]


@pytest.mark.parametrize("number", ["s64", "s32", "u8"])
def test_all_that_follows_from_the_input_is_the_inputs_dtype(number):
    whole = WHOLE.replace("s64", number)
    for first, second, types in (
        (FRACTIONS, whole, f"f32 -> {number}"),
        (whole, FRACTIONS, f"{number} -> f32"),
    ):
        (cause,) = causes(first, second)
        assert cause.startswith(f"dtype an input has another dtype ({types}): input 0")


def test_what_a_comparison_takes_in_is_the_inputs_dtype_without_any_conversion():
    whole = COMPARED.replace("f32[6] parameter(0)", "s64[6] parameter(0)")
    whole = whole.replace("least = f32", "least = s64").replace("bound = f32", "bound = s64")
    (cause,) = causes(COMPARED, whole)
    assert cause.startswith("dtype an input has another dtype")


@pytest.mark.parametrize("other", [OTHER_STEP, OTHER_NUMBER])
def test_another_computation_on_numbers_of_another_type_is_no_matter_of_the_type(other):
    assert not causes(FRACTIONS, other)[0].startswith("dtype")


def test_what_is_computed_besides_is_a_cause_of_its_own():
    found = causes(FRACTIONS, MORE)
    assert any(not cause.startswith("dtype") for cause in found)


def test_two_inputs_by_name_are_no_input_of_another_dtype():
    first, second = (Context(parameters={0: Tensor("", name)}) for name in ("scores", "ranks"))
    found = causes(FRACTIONS, WHOLE, context_a=first, context_b=second)
    assert not found[0].startswith("dtype")


def test_a_number_of_python_alone_stays_what_it_was():
    number = FRACTIONS.replace("two = f32[] parameter", "whole = s64[] parameter").replace(
        "  twos =", "  two = f32[] convert(whole)\n  twos ="
    )
    (cause,) = causes(FRACTIONS, number)
    assert cause.startswith("dtype an input has another dtype (f32 -> s64): B converts input 2")


MISSING = """HloModule step

ENTRY main {
  n = f64[6] parameter(0)
  logged = f64[6] log-plus-one(n)
  typed = f32[6] convert(logged)
  p = f32[6] parameter(1)
  error = f32[6] subtract(p, typed)
  ROOT z = (f32[6]) tuple(error)
}
"""
COUNTED = """HloModule step

ENTRY main {
  n = s64[6] parameter(0)
  typed = f32[6] convert(n)
  logged = f32[6] log-plus-one(typed)
  p = f32[6] parameter(1)
  error = f32[6] subtract(p, logged)
  ROOT z = (f32[6]) tuple(error)
}
"""


@pytest.mark.parametrize("turned", [False, True])
def test_whole_numbers_are_converted_before_and_fractions_behind(turned):
    pair = [read_module(text, "m") for text in (COUNTED, MISSING)]
    found = explain_modules(*(reversed(pair) if turned else pair))
    assert found.proved
    (cause,) = found.causes
    assert str(cause.kind) == "dtype"
    assert ("f64 -> s64" if turned else "s64 -> f64") in str(cause.title)


def test_another_function_of_another_dtype_is_told_too():
    pair = [read_module(text, "m") for text in (COUNTED, MISSING.replace("log-plus-one", "log"))]
    found = explain_modules(*pair)
    assert not found.proved or len(found.causes) > 1 or "log" in str(found.causes[0].title)
