"""A sum over devices is a mean on one side: that is told, of gradients and of other values."""

from __future__ import annotations

import pytest

from xlagraph.explain import explain_modules
from xlagraph.hlo import read_module

STEP = """\
HloModule step, replica_count=4
sum {{
  a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT c = f32[] {applied}(a, b)
}}
ENTRY main {{
  w = f32[4,8] parameter(0)
  x = f32[6,4] parameter(1)
  y = f32[6,8] parameter(2)
  n = f32[] constant({number})
  m = f32[4,8] broadcast(n), dimensions={{}}
  h = f32[6,8] dot(x, w), lhs_contracting_dims={{1}}, rhs_contracting_dims={{0}}
  e = f32[6,8] subtract(h, y)
  g = f32[4,8] dot(x, e), lhs_contracting_dims={{0}}, rhs_contracting_dims={{0}}
  {body}
  k = f32[4,8] multiply(z, z)
  t = f32[4,8] subtract({left}, k)
  ROOT s = (f32[4,8]) tuple(t)
}}
"""
ALL = "r = f32[4,8] all-reduce({0}), replica_groups={1}, to_apply=sum"
SUM = ALL.format("g", "{{0,1,2,3}}") + "\n  z = f32[4,8] tanh(r)"
MEAN = SUM.replace("tanh(r)", "tanh(d)").replace("\n", "\n  d = f32[4,8] divide(r, m)\n")
FIRST = "d = f32[4,8] divide(g, m)\n  " + SUM.replace("(g)", "(d)")


def told(a, b, *, number="4", applied="add", left="w", turned=False):
    texts = [STEP.format(body=body, number=number, applied=applied, left=left) for body in (a, b)]
    found = explain_modules(*map(read_module, texts[::-1] if turned else texts))
    assert found.proved
    return str(found.verdict.what)


@pytest.mark.parametrize("turned", [False, True])
@pytest.mark.parametrize(
    ("mean", "number"),
    [(MEAN, "4"), (FIRST, "4"), (MEAN.replace("divide", "multiply"), "0.25")],
)
def test_a_mean_of_gradients_is_told(mean, number, turned):
    one, other = "BA" if turned else "AB"
    said = told(mean, SUM, number=number, turned=turned)
    assert said.startswith(f"Gradients are averaged over the devices in {one}, summed in {other}")


def test_a_divisor_of_one_element_stands_in_an_array():
    texts = [STEP.format(body=body, number="4", applied="add", left="w") for body in (MEAN, SUM)]
    small = {"[4,8]": "[1,1]", "[6,4]": "[6,1]", "[6,8]": "[6,1]"}
    for shape, less in small.items():
        texts = [text.replace(shape, less) for text in texts]
    array = "m = f32[1,1] constant({ {4} })"
    texts = [text.replace("m = f32[1,1] broadcast(n), dimensions={}", array) for text in texts]
    found = explain_modules(*map(read_module, texts))
    assert str(found.verdict.what).startswith("Gradients are averaged over the devices in A")


def test_all_devices_are_those_of_the_header():
    sides = (one.replace("{{0,1,2,3}}", "{}") for one in (MEAN, SUM))
    assert told(*sides).startswith("Gradients are averaged")


def test_what_the_pass_uses_is_no_gradient():
    further = "\n  q = f32[4,4] dot(z, z), lhs_contracting_dims={1}, rhs_contracting_dims={1}"
    further += "\n  v = f32[4,8] dot(q, z), lhs_contracting_dims={1}, rhs_contracting_dims={0}"
    said = told(MEAN + further, SUM + further, left="v")
    assert said.startswith("Values are averaged over the devices in A, summed in B")


@pytest.mark.parametrize(
    ("a", "options"),
    [
        (MEAN, {"number": "3"}),  # not the number of devices
        (MEAN, {"applied": "maximum"}),  # no sum
        (MEAN.replace("{{0,1,2,3}}", "{{0,1},{2,3}}"), {}),  # over two of them
    ],
)
def test_other_divisions_are_no_mean(a, options):
    b = SUM.replace("{{0,1,2,3}}", "{{0,1},{2,3}}") if "{{0,1}," in a else SUM
    assert "averaged" not in told(a, b, **options)


def test_a_division_before_the_sum_and_one_behind_it_are_both_means():
    assert "averaged" not in told(FIRST, MEAN)


def test_another_edit_is_told_beside_it():
    a = STEP.format(body=MEAN, number="4", applied="add", left="w")
    b = STEP.format(body=SUM, number="4", applied="add", left="v")
    b = b.replace("  k = ", "  v = f32[4,8] cosine(w)\n  k = ")
    verdict = explain_modules(read_module(a), read_module(b)).verdict
    told = str(verdict)
    assert "averaged over the devices in A" in told
    assert "cos(x)" in told
