"""Two versions that give the same values, and what is said of them."""

from __future__ import annotations

import json

from click.testing import CliRunner

from xlagraph.cause.model import Context
from xlagraph.cli.app import cli
from xlagraph.explain import explain_modules
from xlagraph.hlo import read_module

MATMUL = """\
HloModule jit_step
ENTRY e {
  w = f32[6,5] parameter(0)
  x = f32[4,6] parameter(1)
  h = f32[4,5] dot(x, w), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  s = f32[4,5] logistic(h)
  y = f32[4,5] multiply(h, s)
  ROOT r = (f32[4,5]) tuple(y)
}
"""
EINSUM = """\
HloModule jit_step
ENTRY e {
  x = f32[4,6] parameter(0)
  w = f32[6,5] parameter(1)
  d = f32[5,4] dot(w, x), lhs_contracting_dims={0}, rhs_contracting_dims={1}
  h = f32[4,5] transpose(d), dimensions={1,0}
  n = f32[4,5] negate(h)
  e = f32[4,5] exponential(n)
  one = f32[] constant(1)
  ones = f32[4,5] broadcast(one), dimensions={}
  b = f32[4,5] add(e, ones)
  y = f32[4,5] divide(h, b)
  ROOT r = (f32[4,5]) tuple(y)
}
"""


def explained(a, b, *contexts):
    return explain_modules(read_module(a, "a"), read_module(b, "b"), *contexts)


def test_two_versions_with_the_same_values_are_the_same():
    found = explained(MATMUL, EINSUM)
    assert (found.same, found.diff.same) == (True, False)
    assert str(found.verdict.what) == (
        f"The same values, but for rounding: evaluated at {found.evaluated} random inputs, "
        "A and B agree in its one output."
    )
    assert "XLA compiles both forms" in str(found.verdict.notes[0])
    assert found.causes


def test_other_values_are_told_as_before():
    found = explained(MATMUL, EINSUM.replace("add(e, ones)", "subtract(e, ones)"))
    assert (found.same, found.evaluated) == (False, 0)


def named(text):
    """A module that takes one argument with this last line."""
    head = "HloModule m\nENTRY e {\n  x = f32[8] parameter(0)\n  h = f32[8] constant({HALF})\n"
    return head.replace("{HALF}", "{0.5,0.5,0.5,0.5,0.5,0.5,0.5,0.5}") + text


def test_what_no_random_point_shows_is_told_as_what_it_is():
    last = "  c = pred[8] compare(x, h), direction=GT\n  ROOT r = f32[8] select(c, x, h)\n}\n"
    assert not explained(named(last), named(last.replace("GT", "GE"))).same
    wide = "  y = f32[8] multiply(x, h)\n  z = f32[8] add(y, x)\n  ROOT r = f32[8] tanh(z)\n}\n"
    narrow = wide.replace("add(y", "add(w").replace(
        "  z =", "  v = bf16[8] convert(y)\n  w = f32[8] convert(v)\n  z ="
    )
    assert not explained(named(wide), named(narrow)).same


def test_two_steps_of_a_run_are_two_modules():
    step = Context(key={"graph_hash": "1"})
    assert not explained(MATMUL, EINSUM, step, Context(key={"graph_hash": "2"})).same


def test_a_module_after_optimization_is_not_compared_by_values():
    scheduled = EINSUM.replace("jit_step", "jit_step, is_scheduled=true")
    assert not explained(MATMUL, scheduled).same


def test_arguments_that_have_names_keep_them():
    """The same function of the other argument is another one."""
    a = MATMUL.replace("dot(x, w)", "dot(x.1, params_w.1)").replace("w =", "params_w.1 =")
    a = a.replace("x =", "x.1 =").replace("f32[6,5]", "f32[6,6]").replace("f32[4,6]", "f32[6,6]")
    a = a.replace("f32[4,5]", "f32[6,6]")
    b = a.replace("dot(x.1, params_w.1)", "dot(params_w.1, x.1)")
    b = b.replace("multiply(h, s)", "multiply(s, h)")
    assert not explained(a, b).same


def test_the_command_says_so(tmp_path):
    a, b = tmp_path / "a.hlo", tmp_path / "b.hlo"
    a.write_text(MATMUL)
    b.write_text(EINSUM)
    told = CliRunner().invoke(cli, ["diff", "--json", str(a), str(b)])
    assert told.exit_code == 0
    found = json.loads(told.output)
    assert found["same"]
    assert found["evaluated"] > 0
    told = CliRunner().invoke(cli, ["diff", str(a), str(b)])
    assert told.exit_code == 0
    assert "The same values, but for rounding" in " ".join(told.output.split())
    again = CliRunner().invoke(cli, ["diff", "--json", str(a), str(a)])
    assert json.loads(again.output)["evaluated"] == 0


TENSORS = """\
HloModule jit_step
ENTRY e {
  w = f32[6,5] parameter(0)
  x = f32[4,6] parameter(1)
  h = f32[4,5] dot(x, w), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  s = f32[4,5] logistic(h)
  y = f32[4,5] multiply(h, s)
  n = f32[6,5] negate(w)
  f = f32[6,5] exponential(n)
  q = f32[4,6] multiply(x, x)
  v = f32[4,6] sine(q)
  ROOT r = (f32[4,5], f32[6,5], f32[4,6]) tuple(y, f, v)
}
"""
MORE = """\
HloModule jit_step
ENTRY e {
  x = f32[4,6] parameter(0)
  w = f32[6,5] parameter(1)
  d = f32[5,4] dot(w, x), lhs_contracting_dims={0}, rhs_contracting_dims={1}
  h = f32[4,5] transpose(d), dimensions={1,0}
  n = f32[4,5] negate(h)
  e = f32[4,5] exponential(n)
  one = f32[] constant(1)
  ones = f32[4,5] broadcast(one), dimensions={}
  b = f32[4,5] add(e, ones)
  y = f32[4,5] divide(h, b)
  g = f32[6,5] exponential(w)
  many = f32[6,5] broadcast(one), dimensions={}
  f = f32[6,5] divide(many, g)
  two = f32[] constant(2)
  twos = f32[4,6] broadcast(two), dimensions={}
  q = f32[4,6] power(x, twos)
  v = f32[4,6] sine(q)
  k = f32[4,6] cosine(x)
  ROOT r = (f32[4,5], f32[4,6], f32[6,5], f32[4,6]) tuple(y, k, f, v)
}
"""


def test_a_tensor_that_one_text_keeps_beside_all_that_both_give_is_named():
    found = explain_modules(read_module(TENSORS, "a"), read_module(MORE, "b"))
    assert not found.same
    assert found.evaluated == 6
    what = str(found.verdict.what)
    assert what.startswith("The same values, but for rounding")
    assert what.endswith("agree in 3 outputs; B gives back 1 tensor more (output 1 (f32[4,6])).")
    assert found.unexplained_a == found.unexplained_b == ()


def scaled(text: str, kind: str) -> str:
    """The module as torch_xla writes it, its value times a Python number in one of its types."""
    number = f"  k = {kind}[] parameter(2)\n  c = f32[] convert(k)\n"
    number += "  cs = f32[4,5] broadcast(c), dimensions={}\n  z = f32[4,5] multiply(y, cs)\n"
    text = text.replace("jit_step", "IrToHlo.1").replace("tuple(y)", "tuple(z)")
    number = number if kind == "f64" else number.replace("convert", "copy")
    return text.replace("  ROOT", f"{number}  ROOT")


def test_a_number_may_be_handed_in_in_another_type():
    found = explained(scaled(MATMUL, "f64"), scaled(EINSUM, "f32"))
    assert (found.same, found.diff.same) == (True, False)
    assert "The same values" in str(found.verdict.what)
    jitted = [
        scaled(t, k).replace("IrToHlo.1", "jit_f") for t, k in ((MATMUL, "f64"), (EINSUM, "f32"))
    ]
    assert not explained(*jitted).same, "an argument's type is told"
