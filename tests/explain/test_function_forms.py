"""Functions by name where two bare texts differ, and two forms of one function."""

from __future__ import annotations

import pytest

from xlagraph.cause.model import Context
from xlagraph.explain import explain_modules
from xlagraph.hlo import read_module

ONE = ("c = f32[] constant(1)", "n = f32[4,8] broadcast(c), dimensions={}")
HALF = ("d = f32[] constant(0.5)", "h = f32[4,8] broadcast(d), dimensions={}")
LOG_SIGMOID = ("s = f32[4,8] logistic(x)", "y = f32[4,8] log(s)")
STABLE = (
    *ONE,
    "m = f32[4,8] negate(x)",
    "e = f32[4,8] exponential(m)",
    "a = f32[4,8] add(e, n)",
    "l = f32[4,8] log(a)",
    "y = f32[4,8] negate(l)",
)
NEARLY = (*STABLE[:-1], *HALF, "k = f32[4,8] multiply(l, h)", "y = f32[4,8] negate(k)")
RELU = (
    "c = f32[] constant(0)",
    "n = f32[4,8] broadcast(c), dimensions={}",
    "y = f32[4,8] maximum(x, n)",
)
SILU = ("s = f32[4,8] logistic(x)", "y = f32[4,8] multiply(x, s)")
ROUNDED = (
    "r = bf16[4,8] convert(x)",
    "f = f32[4,8] convert(r)",
    "s = f32[4,8] logistic(f)",
    "y = f32[4,8] log(s)",
)


def module(piece, kind="f32"):
    """A layer, a piece on its output, and a second layer."""
    lines = (
        "p = f32[4,6] parameter(0)",
        "w = f32[6,8] parameter(1)",
        "v = f32[8,3] parameter(2)",
        "x = f32[4,8] dot(p, w), lhs_contracting_dims={1}, rhs_contracting_dims={0}",
        *piece,
        "ROOT z = f32[4,3] dot(y, v), lhs_contracting_dims={1}, rhs_contracting_dims={0}",
    )
    body = "".join(f"  {line}\n" for line in lines).replace("f32", kind)
    return read_module(f"HloModule m\nENTRY e {{\n{body}}}\n")


def said(first, second, *contexts, kind="f32"):
    found = explain_modules(module(first, kind), module(second, kind), *contexts)
    return str(found.verdict)


def test_two_forms_of_one_function_are_told_as_such():
    found = explain_modules(module(LOG_SIGMOID), module(STABLE))
    what = str(found.verdict)
    assert what.startswith("The same values, but for rounding")
    assert "computed in another form, equal but for rounding: log(sigmoid(x)) in A" in what
    assert (found.same, found.diff.same) == (True, False)


@pytest.mark.parametrize("other", [NEARLY, ROUNDED])
def test_what_is_not_equal_is_no_other_form(other):
    assert "equal" not in said(LOG_SIGMOID, other)


SQUARE = ("y = f32[4,8] multiply(x, x)",)
HALVED = (
    "d = f32[] constant(2)",
    "h = f32[4,8] broadcast(d), dimensions={}",
    "k = f32[4,8] divide(x, h)",
    "l = f32[4,8] multiply(k, x)",
    "y = f32[4,8] multiply(l, h)",
)


def test_whole_numbers_are_not_taken_for_fractions():
    assert "equal but for rounding: x * x in A" in said(SQUARE, HALVED)
    assert "equal" not in said(SQUARE, HALVED, kind="s32")


def test_activations_have_their_names():
    assert "relu(x) became silu(x)" in said(RELU, SILU)
    assert "silu(x) became relu(x)" in said(SILU, RELU)


CALLED = """\
HloModule jit_step
silu {
  a = f32[4,8] parameter(0)
  s = f32[4,8] logistic(a)
  y = f32[4,8] multiply(a, s)
  ROOT t = (f32[4,8], f32[4,8]) tuple(y, s)
}
ENTRY e {
  p = f32[4,6] parameter(0)
  w = f32[6,8] parameter(1)
  v = f32[8,3] parameter(2)
  x = f32[4,8] dot(p, w), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  c = (f32[4,8], f32[4,8]) call(x), to_apply=silu
  y = f32[4,8] get-tuple-element(c), index=INDEX
  ROOT z = f32[4,3] dot(y, v), lhs_contracting_dims={1}, rhs_contracting_dims={0}
}
"""


@pytest.mark.parametrize(("index", "name"), [("0", "silu(x)"), ("1", "sigmoid(x)")])
def test_functions_are_read_through_calls(index, name):
    called = read_module(CALLED.replace("INDEX", index))
    found = explain_modules(module(RELU), called)
    assert f"relu(x) became {name}" in str(found.verdict.what)


def test_a_function_without_a_name_has_none():
    assert "became" not in said(NEARLY, SILU) or "logsigmoid" not in said(NEARLY, SILU)


def test_steps_of_a_recorded_run_keep_their_words():
    context = Context(key={"graph_hash": "1"})
    assert "equal but for rounding" not in said(LOG_SIGMOID, STABLE, context)


ZEROS = """\
HloModule m
ENTRY e {
  p = f32[4] parameter(0)
  c = f32[] constant(0)
  h = f32[4] broadcast(c), dimensions={}
  t = f32[4] tanh(h)
  s = f32[4] add(p, t)
  ROOT r = f32[4] cosine(s)
}
"""
MADE = "  c = f32[] constant(0)\n  h = f32[4] broadcast(c), dimensions={}\n"
TAKEN = ZEROS.replace(MADE, "  h = f32[4] parameter(1)\n")


@pytest.mark.parametrize("context", [Context(), Context(key={"graph_hash": "1"})])
def test_a_first_value_is_warm_up_in_a_recorded_run_alone(context):
    first, second = read_module(ZEROS), read_module(TAKEN)
    (cause,) = explain_modules(first, second, context, context).causes
    assert str(cause.kind) == "initial-state"
    assert cause.expected == bool(context.key)
    words = "1 tensor that A makes from constants comes into B as an input (f32[4])"
    assert (str(cause.in_short) == words) != cause.expected
