"""Numbers of two types: the same one rounded, or another."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from xlagraph.facts.values.rounding import format_of, same_number

TYPES = {
    "bf16": ml_dtypes.bfloat16,
    "f16": np.float16,
    "f32": np.float32,
    "f8e4m3": ml_dtypes.float8_e4m3,
    "f8e5m2": ml_dtypes.float8_e5m2,
}


@pytest.mark.parametrize("name", TYPES)
@given(number=st.floats(-200, 200))
def test_rounds_as_numpy_does(name, number):
    assert format_of(name).rounded(number) == float(np.float64(number).astype(TYPES[name]))


@pytest.mark.parametrize("name", TYPES)
def test_the_largest_number(name):
    assert format_of(name).largest == float(ml_dtypes.finfo(TYPES[name]).max)


@pytest.mark.parametrize(
    ("old", "new", "old_type", "new_type", "same"),
    [
        ("0.99", "0.9883", "f32", "bf16", True),
        ("0.9883", "0.99", "bf16", "f32", True),
        ("0.99", "0.9961", "f32", "bf16", False),
        ("0.1", "0.1006", "f32", "bf16", False),
        ("1e-08", "0", "f32", "f16", True),
        ("{0.1, 0.2}", "{0.1001, 0.2002}", "f32", "bf16", True),
        ("{0.1, 0.2}", "{0.1001, 0.25}", "f32", "bf16", False),
        ("{0.1, 0.2}", "0.1001", "f32", "bf16", False),
        ("-3.40282347e+38", "-3.39e+38", "f32", "bf16", True),
        ("-3.40282347e+38", "-65504", "f32", "f16", True),
        ("-3.40282347e+38", "65504", "f32", "f16", False),
        ("(0.1, 0)", "(0.10000000000000001, 0)", "c64", "c128", True),
        ("3", "3.5", "s32", "f32", False),
        ("true", "false", "pred", "pred", False),
    ],
)
def test_one_number_or_two(old, new, old_type, new_type, same):
    assert same_number(old, new, old_type, new_type) == same
