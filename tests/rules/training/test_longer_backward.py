"""Gradients that flow further through a value that one side detaches, and what only looks alike."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest

from xlagraph.cause.model import Explanation
from xlagraph.explain import explain_modules
from xlagraph.hlo import read_module

PAIRS = Path(__file__).resolve().parents[3] / "fixtures" / "module_pairs"
STEP = """HloModule step

sum {
  a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT ab = f32[] add(a, b)
}

ENTRY main {
  x = f32[4,8] parameter(0)
  w = f32[8,8] parameter(1)
  v = f32[8,8] parameter(2)
  rate = f32[] parameter(3)
  rates = f32[8,8] broadcast(rate), dimensions={}
  wide = f32[4,8] broadcast(rate), dimensions={}
  h = f32[4,8] dot(x, w), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  t = f32[4,8] tanh(h)
  g = f32[4,8] logistic(t)
  m = f32[4,8] multiply(t, g)
  y = f32[4,8] dot(m, v), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  e = f32[4,8] exponential(y)
  zero = f32[] constant(0)
  l = f32[] reduce(e, zero), dimensions={0,1}, to_apply=sum
  gv = f32[8,8] dot(m, e), lhs_contracting_dims={0}, rhs_contracting_dims={0}
  dv = f32[8,8] multiply(rates, gv)
  nv = f32[8,8] subtract(v, dv)
  dm = f32[4,8] dot(e, v), lhs_contracting_dims={1}, rhs_contracting_dims={1}
  dt = f32[4,8] multiply(dm, g)
  MORE
  tt = f32[4,8] multiply(t, t)
  one = f32[] constant(1)
  ones = f32[4,8] broadcast(one), dimensions={}
  flat = f32[4,8] subtract(ones, tt)
  dh = f32[4,8] multiply(dt, flat)
  gw = f32[8,8] dot(x, dh), lhs_contracting_dims={0}, rhs_contracting_dims={0}
  dw = f32[8,8] multiply(rates, gw)
  nw = f32[8,8] subtract(w, dw)
  ROOT r = (f32[], f32[8,8], f32[8,8]) tuple(l, nw, nv)
}
"""
FLOW = """dg = f32[4,8] multiply(dm, t)
  k = f32[4,8] subtract(wide, g)
  kg = f32[4,8] multiply(k, g)
  dg2 = f32[4,8] multiply(dg, kg)
"""
PLAIN = STEP.replace("  MORE\n", "")


def with_term(term: str, value: str, *changes: tuple[str, str]) -> str:
    """The step with a value added to the gradient of the activations."""
    text = STEP.replace("MORE", f"{term}  dt2 = f32[4,8] add(dt, {value})")
    for old, new in (("multiply(dt, flat)", "multiply(dt2, flat)"), *changes):
        assert old in text
        text = text.replace(old, new)
    return text


def both_ways(a: str, b: str) -> list[Explanation]:
    first, second = read_module(a, "a"), read_module(b, "b")
    found = [explain_modules(first, second), explain_modules(second, first)]
    assert all(one.proved for one in found)
    return found


def kinds(a: str, b: str) -> set[str]:
    return {cause.kind.id for one in both_ways(a, b) for cause in one.causes}


NO_LOSS = ("(f32[], f32[8,8], f32[8,8]) tuple(l, nw, nv)", "(f32[8,8], f32[8,8]) tuple(nw, nv)")


@pytest.mark.parametrize("loss", [True, False])
def test_a_gradient_that_flows_on_through_a_value(loss):
    texts = [PLAIN, with_term(FLOW, "dg2")]
    for side, explanation in zip(
        "BA", both_ways(*(t if loss else t.replace(*NO_LOSS) for t in texts)), strict=True
    ):
        (cause,) = explanation.causes
        assert cause.kind.id == "longer-backward"
        assert f"gradients flow further in {side}" in str(cause.title)
        assert "the gradients of 1 tensor (input 1 (f32[8,8]))" in str(cause.title)
        assert not loss or "through g (f32[4,8])" in str(cause.title)
        assert "Detach the value" in str(cause.fix_in_short)


def test_through_a_function_that_is_called():
    body = """scaled {
  c = f32[4,8] parameter(0)
  d = f32[4,8] parameter(1)
  ROOT cd = f32[4,8] multiply(c, d)
}

ENTRY"""
    flow = FLOW.replace(
        "dg2 = f32[4,8] multiply(dg, kg)", "dg2 = f32[4,8] call(dg, kg), to_apply=scaled"
    )
    a, b = (text.replace("ENTRY", body) for text in (PLAIN, with_term(flow, "dg2")))
    assert kinds(a, b) == {"longer-backward"}


GATE = """gate {
  c = f32[4,8] parameter(0)
  q = f32[4,8] logistic(c)
  m = f32[4,8] multiply(c, q)
  ROOT t = (f32[4,8], f32[4,8]) tuple(m, q)
}

jvp_gate {
  c = f32[4,8] parameter(0)
  q = f32[4,8] logistic(c)
  m = f32[4,8] multiply(c, q)
  wide = f32[4,8] sine(q)
  ROOT t = (f32[4,8], f32[4,8], f32[4,8]) tuple(m, q, wide)
}

ENTRY"""
"""What a function gives out that is not differentiated, and what with it its derivative needs."""


def called(text: str, gate: str, number: int) -> str:
    shapes = ", ".join(["f32[4,8]"] * number)
    parts = (
        f"  p = ({shapes}) call(t), to_apply={gate}\n"
        "  m = f32[4,8] get-tuple-element(p), index=0\n"
        "  g = f32[4,8] get-tuple-element(p), index=1\n"
    )
    text = text.replace("  g = f32[4,8] logistic(t)\n", "")
    return text.replace("  m = f32[4,8] multiply(t, g)\n", parts).replace("ENTRY", GATE)


def test_where_the_derivative_calls_another_function():
    flow = """kg = f32[4,8] get-tuple-element(p), index=2
  dg = f32[4,8] multiply(dm, t)
  dg2 = f32[4,8] multiply(dg, kg)
"""
    a, b = called(PLAIN, "gate", 2), called(with_term(flow, "dg2"), "jvp_gate", 3)
    for side, explanation in zip("BA", both_ways(a, b), strict=True):
        (cause,) = explanation.causes
        assert cause.kind.id == "longer-backward"
        assert f"gradients flow further in {side}" in str(cause.title)
        assert any("put in line" in str(note) for note in explanation.verdict.notes)


def test_a_function_that_computes_something_else_is_no_longer_backward():
    other = called(PLAIN, "gate", 2).replace("logistic(c)", "tanh(c)")
    assert kinds(called(PLAIN, "gate", 2), other).isdisjoint({"longer-backward"})


def test_a_pair_tells_which_side_cuts_the_gradients():
    for side, explanation in zip("BA", both_ways(PLAIN, with_term(FLOW, "dg2")), strict=True):
        assert f"Gradients flow further in {side} than in " in str(explanation.verdict.what)
        assert ".detach()" in str(explanation.verdict.what)
    jitted = [
        t.replace("HloModule step", "HloModule jit_step") for t in (PLAIN, with_term(FLOW, "dg2"))
    ]
    assert "jax.lax.stop_gradient" in str(both_ways(*jitted)[0].verdict.what)


OTHERS = {
    "a penalty on activations": ("pt = f32[4,8] multiply(wide, t)\n", "pt"),
    "a penalty that takes what the backward pass has, too": (
        "pt = f32[4,8] multiply(wide, flat)\n", "pt",
    ),
    "the gradient itself, scaled": ("pt = f32[4,8] cosine(dt)\n", "pt"),
    "a number": ("", "wide"),
}  # fmt: skip


@pytest.mark.parametrize("name", OTHERS)
def test_other_terms_of_a_gradient(name):
    """They come of the forward pass alone, or are no derivative: a loss has another term."""
    term, value = OTHERS[name]
    if "flat" in term:
        made = STEP[STEP.index("  tt = ") : STEP.index("  dh = ")]
        plain, other = (t.replace(made, "") for t in (PLAIN, with_term(term, value)))
        plain, other = (t.replace("  dt = ", made + "  dt = ") for t in (plain, other))
    else:
        plain, other = PLAIN, with_term(term, value)
    for pair in ((plain, other), (plain.replace(*NO_LOSS), other.replace(*NO_LOSS))):
        assert "longer-backward" not in kinds(*pair)


def test_where_the_loss_changes_too_it_has_another_term():
    loss = ("tuple(l, nw, nv)", "tuple(l2, nw, nv)")
    more = """  p = f32[] reduce(dg2, zero), dimensions={0,1}, to_apply=sum
  l2 = f32[] add(l, p)
"""
    changed = with_term(FLOW + more, "dg2", loss)
    assert "longer-backward" not in kinds(PLAIN, changed)


HALF = "half = f32[] constant(0.5)\n  halves = f32[8,8] broadcast(half), dimensions={}\n  "


@pytest.mark.parametrize(
    "made",
    [
        HALF + "gs = f32[8,8] multiply(halves, gw)\n  gw2 = f32[8,8] add(gw, gs)",  # Nesterov
        HALF + "gs = f32[8,8] multiply(halves, w)\n  gw2 = f32[8,8] add(gw, gs)",  # weight decay
        "gs = f32[8,8] tanh(gw)\n  gw2 = f32[8,8] add(gw, gs)",
    ],
)
def test_what_an_optimizer_adds_to_a_final_gradient(made):
    changed = PLAIN.replace("  dw = ", f"  {made}\n  dw = ").replace(
        "dw = f32[8,8] multiply(rates, gw)", "dw = f32[8,8] multiply(rates, gw2)"
    )
    assert "longer-backward" not in kinds(PLAIN, changed)


@pytest.mark.parametrize("name", ["advantage_kept", "state_kept"])
def test_it_is_one_cause_in_both_directions(name):
    texts = [gzip.decompress((PAIRS / f"{name}.{s}.hlo.gz").read_bytes()).decode() for s in "ab"]
    assert kinds(*texts) == {"longer-backward"}
