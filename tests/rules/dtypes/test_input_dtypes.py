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


def table(kinds: str, places: str, lines: str = "7777") -> str:
    """Columns of a batch, shifted by numbers and joined: ``s`` integers, ``f`` floats.

    `places`: which column stands where; `lines`: where each is made.
    """
    text = "HloModule step\n\nENTRY main {\n"
    for k, (kind, line) in enumerate(zip(kinds, lines, strict=True)):
        made = f'metadata={{op_type="xla__device_data" source_file="t.py" source_line={line}}}'
        type_ = {"s": "s64", "f": "f32"}[kind]
        text += f"  c{k} = {type_}[4] parameter({k}), {made}\n  m{k} = f32[] parameter({4 + k})\n"
        if kind == "s":
            text += f"  x{k} = f32[4] convert(c{k})\n"
        text += f"  b{k} = f32[4] broadcast(m{k}), dimensions={{}}\n"
        text += f"  d{k} = f32[4] subtract({'x' if kind == 's' else 'c'}{k}, b{k})\n"
        text += f"  r{k} = f32[1,4] reshape(d{k})\n"
    joined = ", ".join(f"r{k}" for k in places)
    text += f"  j = f32[4,4] concatenate({joined}), dimensions={{0}}\n"
    return text + "  ROOT t = f32[4,4] tanh(j)\n}\n"


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


@pytest.mark.parametrize(
    ("before", "after"), [("ssff", "sfsf"), ("sfff", "ffsf"), ("fsss", "ssfs")]
)
def test_inputs_that_take_each_others_dtypes_are_not_values_in_another_order(before, after):
    (cause,) = causes(table(before, "0123"), table(after, "0123"))
    assert cause.startswith("dtype 2 inputs have another dtype (")
    assert "; B converts" in cause
    assert cause.endswith("at t.py:7")


def test_inputs_made_at_other_lines_stand_in_another_order():
    lines = "1234"
    (cause,) = causes(table("sfff", "0123", lines), table("sfff", "2103", lines))
    assert cause.startswith("reordered-operands concatenate takes the same values")


def test_inputs_with_names_of_their_own_stand_in_another_order():
    named = Context(parameters={k: Tensor("", name) for k, name in enumerate("abcd")})
    found = causes(table("sfff", "0123"), table("sfff", "2103"), context_a=named, context_b=named)
    assert found[0].startswith("reordered-operands concatenate takes the same values")


def test_what_else_would_make_the_same_graphs_is_said():
    first, second = table("sfff", "0123"), table("ffsf", "0123")
    explanation = explain_modules(read_module(first, "a"), read_module(second, "b"))
    said = [str(one.text) for cause in explanation.causes for one in cause.evidence]
    assert any("in another order" in one and "same two graphs" in one for one in said)


LOOKUP = """HloModule step

ENTRY main {
  i = s64[4] parameter(0)
  t = f32[9,3] parameter(1)
  n = s64[] parameter(2)
  u = u32[4] convert(i)
  e = f32[4,3] gather(t, u), offset_dims={1}, collapsed_slice_dims={0}, start_index_map={0}, \
index_vector_dim=1, slice_sizes={1,3}
  z = s64[] constant(0)
  zs = s64[4] broadcast(z), dimensions={}
  below = pred[4] compare(i, zs), direction=LT
  ns = s64[4] broadcast(n), dimensions={}
  next = s64[4] add(i, ns)
  k = s64[4] select(below, next, i)
  ROOT r = (f32[4,3], s64[4]) tuple(e, k)
}
"""
"""An embedding with an index of 64 bits, which a gather takes as unsigned ones."""
NARROW = (
    LOOKUP.replace("i = s64", "i = s32")
    .replace("n = s64", "n = s32")
    .replace("  u = u32[4] convert(i)", "  c = s64[4] convert(i)")
    .replace("gather(t, u)", "gather(t, i)")
    .replace("compare(i, zs)", "compare(c, zs)")
    .replace("ns = s64", "ns = s32")
    .replace("next = s64", "next = s32")
    .replace("k = s64", "k = s32")
    .replace("(f32[4,3], s64[4])", "(f32[4,3], s32[4])")
)
HALF = """HloModule step

ENTRY main {
  x = f32[4,3] parameter(0)
  c = bf16[4,3] convert(x)
  y = bf16[4,3] tanh(c)
  z = f32[4,3] convert(y)
  ROOT r = f32[4,3] multiply(z, x)
}
"""


def test_conversions_elsewhere_belong_to_the_input_of_another_dtype():
    for first, second in ((LOOKUP, NARROW), (NARROW, LOOKUP)):
        explanation = explain_modules(read_module(first, "a"), read_module(second, "b"))
        (cause,) = explanation.causes
        assert explanation.proved
        old, new = ("s64", "s32") if first is LOOKUP else ("s32", "s64")
        said = f"An input ([4]) has another dtype ({old} -> {new}) in some steps"
        assert str(cause.in_short) == said
        assert str(cause.fix_in_short) == "Give the input one dtype in every step."
        assert "input 2" not in str(cause.title)  # a number follows


def test_conversions_to_another_type_are_no_input_of_another_dtype():
    other = HALF.replace("bf16", "f16")
    explanation = explain_modules(read_module(HALF, "a"), read_module(other, "b"))
    (cause,) = explanation.causes
    assert explanation.proved
    assert str(cause.in_short) == "tanh and 1 more instruction went from bf16 to f16"


def columns(first: str, second: str, *, swapped: bool = False) -> str:
    """Two columns of a table, each converted and then scaled in its own way."""
    one, other = ("c1", "c0") if swapped else ("c0", "c1")
    return (
        "HloModule step\n\nENTRY main {\n"
        f"  x0 = {first}[8] parameter(0)\n  x1 = {second}[8] parameter(1)\n"
        "  c0 = f32[8] convert(x0)\n  c1 = f32[8] convert(x1)\n"
        f"  a = f32[8] cosine({one})\n  b = f32[8] sine({other})\n"
        "  ROOT out = (f32[8], f32[8]) tuple(a, b)\n}\n"
    )


def test_columns_that_take_each_others_dtypes_and_are_converted_anyway():
    """As pandas infers them: whole numbers here, numbers with gaps there."""
    found = explain_modules(read_module(columns("s64", "f64")), read_module(columns("f64", "s64")))
    (cause,) = found.causes
    assert (found.proved, cause.kind.id) == (True, "dtype")
    assert "2 inputs have another dtype (s64 -> f64, f64 -> s64)" in str(cause.title)
    assert "Give the tensor one dtype where it is made" in str(cause.fix)


def test_columns_of_one_dtype_that_change_places_have_no_other_dtype():
    a, b = columns("s64", "s64"), columns("s64", "s64", swapped=True)
    found = explain_modules(read_module(a), read_module(b))
    assert not any(cause.kind.id == "dtype" for cause in found.causes)


BOTH_CONVERTED = """HloModule step

ENTRY main {
  n = s64[4] parameter(0)
  w = f32[4] parameter(1)
  x = f32[4] convert(n)
  ROOT y = f32[4] multiply(x, w)
}
"""


@pytest.mark.parametrize(
    ("other", "fix"),
    [
        ("f64", "Give the tensor one dtype where it is made."),
        ("s32", "Give the input one dtype in every step."),
        ("s16", "Give the tensor one dtype where it is made."),
    ],
)
def test_values_decide_between_whole_numbers_and_floats(other, fix):
    second = BOTH_CONVERTED.replace("s64", other)
    explanation = explain_modules(read_module(BOTH_CONVERTED, "a"), read_module(second, "b"))
    (cause,) = explanation.causes
    assert explanation.proved
    assert str(cause.in_short) == f"An input ([4]) has another dtype (s64 -> {other}) in some steps"
    assert str(cause.fix_in_short) == fix
