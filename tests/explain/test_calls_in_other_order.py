"""Functions that are called in one version and stand in line in the other, with other orders."""

from __future__ import annotations

import re

import pytest

from xlagraph.cause.model import Context
from xlagraph.explain import explain_modules
from xlagraph.hlo import read_module

FLAT = """HloModule jit_step

ENTRY main {
  a = f32[4] parameter(0)
  b = f32[4] parameter(1)
  u = f32[4] tanh(a)
  v = f32[4] multiply(u, b)
  s = f32[4] add(v, a)
  t = f32[4] subtract(v, b)
  ROOT r = (f32[4], f32[4], f32[4]) tuple(s, t, u)
}
"""
CALLED = """HloModule jit_step

layer {
  k = f32[4] parameter(0)
  p = f32[4] parameter(1)
  u = f32[4] tanh(p)
  v = f32[4] multiply(u, k)
  ROOT r = (f32[4], f32[4]) tuple(v, u)
}

shifted {
  p = f32[4] parameter(0)
  q = f32[4] parameter(1)
  k = f32[4] parameter(2)
  s = f32[4] add(p, k)
  t = f32[4] subtract(p, q)
  ROOT r = (f32[4], f32[4]) tuple(t, s)
}

ENTRY main {
  y = f32[4] parameter(0)
  x = f32[4] parameter(1)
  c = (f32[4], f32[4]) call(y, x), to_apply=layer
  v = f32[4] get-tuple-element(c), index=0
  u = f32[4] get-tuple-element(c), index=1
  d = (f32[4], f32[4]) call(v, y, x), to_apply=shifted
  t = f32[4] get-tuple-element(d), index=0
  s = f32[4] get-tuple-element(d), index=1
  ROOT r = (f32[4], f32[4], f32[4]) tuple(u, t, s)
}
"""


def named(text, **names):
    """The text with parameters as JAX calls them after the arguments of a function."""
    for plain, name in names.items():
        text = re.sub(rf"\b{plain}\b(?= = f32\[4\] parameter|[,)])", f"{name}.1", text)
    return read_module(text)


def test_bare_texts_are_the_same_computation():
    found = explain_modules(read_module(FLAT), read_module(CALLED))
    assert found.same
    assert str(found.verdict.what) == (
        "The same computation; only calls of functions differ: 0 calls in A, 2 in B; 2 outputs "
        "come in another order."
    )
    kinds = [str(cause.kind) for cause in found.causes]
    assert kinds[:2] == ["inlined-calls", "outputs-moved"]
    assert "none needed: the result is the same, bit for bit" in str(found.causes[0].fix)


def test_outputs_are_paired_with_calls_in_line():
    found = explain_modules(read_module(FLAT), read_module(CALLED))
    moves = str(found.causes[1].evidence[0].text)
    assert moves == "output positions A -> B: 0 -> 2, 2 -> 0"


def test_two_functions_need_no_mend():
    other = read_module(CALLED.replace("jit_step", "jit_learn"))
    found = explain_modules(read_module(FLAT), other)
    assert found.same
    assert str(found.causes[0].fix).startswith("None needed: the result is the same")


def test_steps_of_a_run_are_two_modules():
    steps = Context(key={"graph_hash": "1"}), Context(key={"graph_hash": "2"})
    found = explain_modules(read_module(FLAT), read_module(CALLED), *steps)
    assert not found.same
    assert found.proved
    assert {str(cause.kind) for cause in found.causes} == {"inlined-calls", "output-order"}


@pytest.mark.parametrize(
    "other",
    [
        CALLED.replace("t = f32[4] subtract(p, q)", "t = f32[4] subtract(q, p)"),
        CALLED.replace("tanh(p)", "cosine(p)"),
        CALLED.replace("tuple(u, t, s)", "tuple(u, t, t)"),
    ],
)
def test_what_computes_something_else_is_not_the_same(other):
    assert not explain_modules(read_module(FLAT), read_module(other)).same


@pytest.mark.parametrize(("first", "second"), [("w", "k"), ("k", "w")])
def test_arguments_keep_their_parts(first, second):
    one, other = named(FLAT, a="w", b="k"), named(CALLED, x=first, y=second)
    assert explain_modules(one, other).same == (first == "w")
