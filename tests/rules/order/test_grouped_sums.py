"""A sum whose terms stand in one order and are added up in other groups reads as such."""

from __future__ import annotations

import pytest

from xlagraph.diff import diff_modules
from xlagraph.explain import explain_modules
from xlagraph.facts.pieces.regrouped import are_cut_by_casts
from xlagraph.hlo import read_module


def total(lines: str) -> str:
    """Four terms, and how they are added up."""
    text = "HloModule step\n\nENTRY main {\n  x = f32[4] parameter(0)\n"
    for name, opcode in zip("pqrs", ("sine", "cosine", "sqrt", "log"), strict=True):
        text += f"  {name}t = f32[4] {opcode}(x)\n"
    return text + lines + "}\n"


CHAIN = """  a = f32[4] add(pt, qt)
  b = f32[4] add(a, rt)
  c = f32[4] add(b, st)
  ROOT t = f32[4] tanh(c)
"""
GROUPED = """  a = f32[4] add(qt, rt)
  b = f32[4] add(a, st)
  c = f32[4] add(pt, b)
  ROOT t = f32[4] tanh(c)
"""
OTHERWISE = CHAIN.replace("add(pt, qt)", "add(st, qt)").replace("add(b, st)", "add(b, pt)")


@pytest.mark.parametrize(
    ("other", "how", "orders"),
    [
        (GROUPED, "other groups", ("(pt, qt, rt, st)", "(pt, (qt, rt, st))")),
        (OTHERWISE, "another order", ("(pt, qt, rt, st)", "(st, qt, rt, pt)")),
    ],
)
def test_two_orders_never_read_the_same(other, how, orders):
    found = explain_modules(read_module(total(CHAIN), "a"), read_module(total(other), "b"))
    assert found.proved
    (cause,) = found.causes
    assert how in str(cause.title)
    assert all(order in str(cause.evidence[0].text) for order in orders)


HALF = """HloModule step

ENTRY main {
  x = f32[4] parameter(0)
  y = f32[4] parameter(1)
  h = bf16[4] convert(x)
  d = bf16[4] sine(h)
  m = f32[4] cosine(y)
  n = f32[4] tanh(y)
  e = f32[4] add(m, n)
  f = bf16[4] convert(e)
  g = bf16[4] add(d, f)
  u = bf16[4] exponential(g)
  ROOT t = f32[4] convert(u)
}
"""
SINGLE = """HloModule step

ENTRY main {
  x = f32[4] parameter(0)
  y = f32[4] parameter(1)
  d = f32[4] sine(x)
  m = f32[4] cosine(y)
  e = f32[4] add(d, m)
  n = f32[4] tanh(y)
  g = f32[4] add(e, n)
  ROOT t = f32[4] exponential(g)
}
"""


def sums(text: str) -> list[int]:
    """The additions of a module."""
    return [i for i, opcode in enumerate(read_module(text, "m").opcodes) if opcode == "add"]


@pytest.mark.parametrize(
    ("first", "second", "is_cut"),
    [(HALF, SINGLE, True), (SINGLE, HALF, True), (SINGLE, SINGLE, False)],
)
def test_a_sum_that_conversions_cut_follows_from_the_type(first, second, is_cut):
    diff = diff_modules(read_module(first, "a"), read_module(second, "b"))
    assert are_cut_by_casts(diff, sums(first), sums(second)) == is_cut


def test_a_sum_that_nothing_cuts_is_no_consequence_beside_one_that_is():
    more = "  v = f32[4] add(y, x)\n  w = f32[4] add(v, m)\n  ROOT t"
    first, second = (text.replace("  ROOT t", more) for text in (HALF, SINGLE))
    diff = diff_modules(read_module(first, "a"), read_module(second, "b"))
    assert not are_cut_by_casts(diff, sums(first), sums(second))
