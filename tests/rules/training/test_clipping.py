"""Clipping that one side leaves out, or calls where it changes nothing, and what is no clipping."""

from __future__ import annotations

import re

from xlagraph.cause.model import Explanation
from xlagraph.explain import explain_modules
from xlagraph.hlo import read_module

SUM = """HloModule step

sum {
  x = f32[] parameter(0)
  y = f32[] parameter(1)
  ROOT z = f32[] add(x, y)
}

ENTRY main {
"""


def step(weights: int, scaled: int, *, factor: str = "minimum(least, limit)") -> str:
    """Moving averages of gradients, as Adam keeps them, and the norm of all gradients.

    The first `scaled` gradients are multiplied by the factor before they are used.
    """
    text = SUM + "  zero = f32[] constant(0)\n  keep = f32[] parameter(0)\n"
    text += "  take = f32[] parameter(1)\n"
    for k in range(weights):
        text += f"  x{k} = f32[4,3] parameter({2 + 2 * k})\n  g{k} = f32[4,3] sine(x{k})\n"
        text += f"  s{k} = f32[4,3] multiply(g{k}, g{k})\n"
        text += f"  n{k} = f32[] reduce(s{k}, zero), dimensions={{0,1}}, to_apply=sum\n"
    norm = "n0"
    for k in range(1, weights):
        text += f"  total{k} = f32[] add({norm}, n{k})\n"
        norm = f"total{k}"
    text += f"  norm = f32[] sqrt({norm})\n"
    if scaled:
        text += f"  limit = f32[] parameter({2 + 2 * weights})\n"
        text += f"  least = f32[] rsqrt({norm})\n  factor = f32[] {factor}\n"
    for k in range(weights):
        used = f"g{k}"
        if k < scaled:
            text += f"  f{k} = f32[4,3] broadcast(factor), dimensions={{}}\n"
            text += f"  c{k} = f32[4,3] multiply(g{k}, f{k})\n"
            used = f"c{k}"
        text += f"  m{k} = f32[4,3] parameter({3 + 2 * k})\n"
        text += f"  keeps{k} = f32[4,3] broadcast(keep), dimensions={{}}\n"
        text += f"  old{k} = f32[4,3] multiply(m{k}, keeps{k})\n"
        text += f"  takes{k} = f32[4,3] broadcast(take), dimensions={{}}\n"
        text += f"  new{k} = f32[4,3] multiply({used}, takes{k})\n"
        text += f"  next{k} = f32[4,3] add(old{k}, new{k})\n"
        text += f"  square{k} = f32[4,3] multiply({used}, {used})\n"
    outputs = ["norm", *(f"{what}{k}" for k in range(weights) for what in ("next", "square"))]
    shapes = ", ".join(["f32[]"] + ["f32[4,3]"] * (len(outputs) - 1))
    return text + f"  ROOT r = ({shapes}) tuple({', '.join(outputs)})\n}}\n"


def both_ways(first: str, second: str) -> list[Explanation]:
    a, b = read_module(first, "a"), read_module(second, "b")
    return [explain_modules(a, b), explain_modules(b, a)]


def test_clipping_after_the_update_leaves_the_norm_alone():
    for explanation in both_ways(step(4, 4), step(4, 0)):
        (cause,) = explanation.causes
        assert explanation.proved
        assert cause.kind.id == "clipping"
        assert "scales 4 values by a number computed from all of them" in str(cause.title)
        assert "between backward() and the update" in str(cause.fix_in_short)


def test_what_is_scaled_by_something_else_is_no_clipping_after_the_update():
    other = step(4, 4, factor="minimum(limit, limit)").replace("least = f32[] rsqrt(total3)", "")
    for explanation in both_ways(other.replace("  \n", ""), step(4, 0)):
        (cause,) = explanation.causes
        assert explanation.proved
        assert "computed from all of them" not in str(cause.title)
        assert "backward()" not in str(cause.fix_in_short)


def by_one(text: str) -> str:
    """The first gradient times one, as by the `alpha` of an update, before all use of it."""
    text = text.replace("  keep = ", "  one = f32[] constant(1)\n  keep = ", 1)
    text = re.sub(r"(?<=square0 = f32\[4,3\] )multiply\(\w+, \w+\)", "sine(m0)", text)
    return text.replace("takes0 = f32[4,3] broadcast(take)", "takes0 = f32[4,3] broadcast(one)")


def test_a_product_by_one_does_not_hide_clipping():
    """It may stand where the other side scales by the norm."""
    for explanation in both_ways(by_one(step(4, 4)), by_one(step(4, 0))):
        assert explanation.proved
        assert [cause.kind.id for cause in explanation.causes][:1] == ["clipping"]


def test_products_by_a_number_of_their_own_stay_no_clipping():
    text = by_one(scaled("multiply(one, one)")).replace("  limit = f32[] parameter(10)\n", "")
    for explanation in both_ways(text, by_one(step(4, 0))):
        assert "clipping" not in {cause.kind.id for cause in explanation.causes}


def scaled(factor: str, *further: str) -> str:
    """Gradients times a factor that this makes of other numbers."""
    text = step(4, 4, factor=factor).replace("  least = f32[] rsqrt(total3)\n", "")
    return text.replace("  factor =", "".join(f"  {line}\n" for line in further) + "  factor =")


def test_a_norm_that_was_read_is_an_input_of_its_own():
    for explanation in both_ways(scaled("sqrt(limit)"), step(4, 0)):
        assert explanation.proved
        assert [cause.kind.id for cause in explanation.causes] == ["clipping"]


def test_numbers_that_both_sides_go_by_and_fixed_ones_are_no_norm():
    def without_limit(text: str) -> str:
        return text.replace("  limit = f32[] parameter(10)\n", "")

    correction = scaled("subtract(one, keep)", "one = f32[] constant(1)")
    mean = scaled("multiply(four, four)", "four = f32[] constant(0.25)")
    for text in map(without_limit, (correction, mean)):
        for explanation in both_ways(text, step(4, 0)):
            assert explanation.proved
            assert "clipping" not in {cause.kind.id for cause in explanation.causes}


def without_norm(text: str) -> str:
    text = re.sub(r"  (?:s\d|n\d|total\d|norm) = .*\n", "", text)
    return text.replace("tuple(norm, ", "tuple(").replace("r = (f32[], ", "r = (")


def test_squares_of_what_is_clipped_do_not_hide_clipping():
    """The moments square the gradients, as their norm does on the side that clips."""
    clipped = step(4, 4).replace("tuple(norm, ", "tuple(").replace("r = (f32[], ", "r = (")
    for explanation, side in zip(both_ways(clipped, without_norm(step(4, 0))), "AB", strict=True):
        assert explanation.proved
        assert [cause.kind.id for cause in explanation.causes] == ["clipping"]
        what = f"Gradients are clipped by their norm in {side} only."
        assert str(explanation.verdict.what) == what


def test_a_norm_under_the_limit_may_leave_gradients_as_they_are():
    """As optax's clip_by_global_norm, which chooses, and divides by the norm."""
    clipped = step(4, 4, factor="sqrt(total3)")
    for k in range(4):
        chosen = (
            f"  o{k} = f32[4,3] divide(g{k}, f{k})\n"
            f"  l{k} = f32[4,3] broadcast(limit), dimensions={{}}\n"
            f"  e{k} = f32[4,3] multiply(o{k}, l{k})\n"
            f"  u{k} = pred[4,3] compare(f{k}, l{k}), direction=LT\n"
            f"  c{k} = f32[4,3] select(u{k}, g{k}, e{k})\n"
        )
        clipped = clipped.replace(f"  c{k} = f32[4,3] multiply(g{k}, f{k})\n", chosen)
    for explanation in both_ways(clipped, step(4, 0)):
        assert explanation.proved
        assert [cause.kind.id for cause in explanation.causes] == ["clipping"]


def test_one_number_that_scales_all_is_not_told_as_a_norm():
    for explanation in both_ways(scaled("sqrt(limit)"), step(4, 0)):
        assert "scaled by one number" in str(explanation.verdict.what)
        assert "clipped" not in str(explanation.verdict.what)


def momentum(weights: int, norm_of: int | None) -> str:
    """SGD with momentum, which adds each gradient times an alpha of one; linear layers' gradients.

    Args:
        weights: the number of weights.
        norm_of: of how many gradients the norm scales all; None for no clipping.
    """
    shift = 2 if norm_of is None else 3
    text = SUM + "  zero = f32[] constant(0)\n  keep = f32[] parameter(0)\n"
    text += "  rate = f32[] parameter(1)\n"
    for k in range(weights):
        text += f"  x{k} = f32[4,3]{{1,0}} parameter({shift + 3 * k})\n"
        text += f"  d{k} = f32[4,3]{{1,0}} sine(x{k})\n"
        text += f"  g{k} = f32[3,4]{{0,1}} transpose(d{k}), dimensions={{1,0}}\n"
    if norm_of is not None:
        norm = "zero"
        for k in range(norm_of):
            text += f"  s{k} = f32[3,4]{{0,1}} multiply(g{k}, g{k})\n"
            text += f"  n{k} = f32[] reduce(s{k}, zero), dimensions={{0,1}}, to_apply=sum\n"
            text += f"  total{k} = f32[] add({norm}, n{k})\n"
            norm = f"total{k}"
        text += f"  limit = f32[] parameter(2)\n  root = f32[] sqrt({norm})\n"
        text += "  one = f32[] constant(1)\n  part = f32[] divide(limit, root)\n"
        text += "  less = pred[] compare(part, one), direction=LT\n"
        text += "  factor = f32[] select(less, part, one)\n"
    for k in range(weights):
        used = f"g{k}"
        if norm_of is not None:
            text += f"  f{k} = f32[3,4]{{1,0}} broadcast(factor), dimensions={{}}\n"
            text += f"  c{k} = f32[3,4]{{1,0}} multiply(g{k}, f{k})\n"
            text += f"  t{k} = f32[4,3]{{0,1}} transpose(c{k}), dimensions={{1,0}}\n"
            text += f"  u{k} = f32[3,4]{{1,0}} transpose(t{k}), dimensions={{1,0}}\n"
            used = f"u{k}"
        text += f"  m{k} = f32[3,4]{{1,0}} parameter({shift + 1 + 3 * k})\n"
        text += f"  keeps{k} = f32[3,4]{{1,0}} broadcast(keep), dimensions={{}}\n"
        text += f"  old{k} = f32[3,4]{{1,0}} multiply(m{k}, keeps{k})\n"
        text += f"  one{k} = f32[] constant(1)\n"
        text += f"  ones{k} = f32[3,4]{{1,0}} broadcast(one{k}), dimensions={{}}\n"
        text += f"  new{k} = f32[3,4]{{1,0}} multiply({used}, ones{k})\n"
        text += f"  next{k} = f32[3,4]{{1,0}} add(old{k}, new{k})\n"
        text += f"  rates{k} = f32[3,4]{{1,0}} broadcast(rate), dimensions={{}}\n"
        text += f"  part{k} = f32[3,4]{{1,0}} multiply(next{k}, rates{k})\n"
        text += f"  w{k} = f32[3,4]{{1,0}} parameter({shift + 2 + 3 * k})\n"
        text += f"  after{k} = f32[3,4]{{1,0}} add(w{k}, part{k})\n"
    outputs = ", ".join(f"after{k}, next{k}" for k in range(weights))
    shapes = ", ".join(["f32[3,4]{1,0}"] * weights * 2)
    return text + f"  ROOT r = ({shapes}) tuple({outputs})\n}}\n"


def test_clipping_before_an_update_that_multiplies_by_one():
    for explanation in both_ways(momentum(4, 4), momentum(4, None)):
        assert explanation.proved
        (cause,) = explanation.causes
        assert cause.kind.id == "clipping"
        assert "scales 4 values by a number computed from all of them" in str(cause.title)
        assert "Both compute the norm" not in str(cause.fix)


def test_scaling_by_the_norm_of_some_is_not_told_as_clipping():
    for explanation in both_ways(momentum(4, 2), momentum(4, None)):
        assert explanation.proved
        assert not any("all of them" in str(cause.title) for cause in explanation.causes)
