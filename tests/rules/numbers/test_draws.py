"""How often something random, or something that acts on the world, runs: that is no repetition."""

from __future__ import annotations

import pytest

from xlagraph.explain import explain_modules
from xlagraph.hlo import read_module

DRAWS = {
    "rng": "{name} = f32[4] rng(low, high), distribution=rng_uniform",
    "custom-call": "{name} = f32[4] custom-call(), custom_call_target=draw, "
    "custom_call_has_side_effect=true",
    "custom-call of a value": "{name} = f32[4] custom-call(x), custom_call_target=draw, "
    "custom_call_has_side_effect=true",
    "infeed": "{name}.both = (f32[4], token[]) infeed(token)\n"
    "  {name} = f32[4] get-tuple-element({name}.both), index=0",
}


def module(draw: str, *, twice: bool):
    """A value and what is computed from it, or from a second one."""
    draws = [draw.format(name=name) for name in ("first", "second")[: 1 + twice]]
    return read_module(
        "HloModule m\n\nENTRY e {\n  x = f32[4] parameter(0)\n  low = f32[] constant(0)\n"
        "  high = f32[] constant(1)\n  token = token[] after-all()\n  "
        + "\n  ".join(draws)
        + f"\n  y = f32[4] add(x, {'second' if twice else 'first'})\n"
        "  ROOT t = (f32[4], f32[4]) tuple(first, y)\n}\n",
        draw,
    )


@pytest.mark.parametrize("name", DRAWS)
def test_what_is_drawn_twice_is_more_than_what_is_drawn_once(name):
    once, twice = (module(DRAWS[name], twice=twice) for twice in (False, True))
    for a, b, more in ((once, twice, "B"), (twice, once, "A")):
        explanation = explain_modules(a, b)
        (cause,) = explanation.causes
        assert explanation.proved
        assert cause.kind.id in ("extra-subgraph", "random-numbers", "accumulation-count")
        assert more in str(cause.title).replace("A and B", "")
        claimed = explanation.diff.a if more == "A" else explanation.diff.b
        cited = cause.a if more == "A" else cause.b
        assert any(claimed.names[i].startswith(("first", "second")) for i in cited)


def masked(dropped: str, *, is_on: bool, other: str = "") -> str:
    """Two like layers, whose values are multiplied by masks that are drawn, and a mean of them."""
    text = "HloModule masked\n\nENTRY main {\n  x = f32[4,8] parameter(0)\n"
    text += "  w = f32[8,8] parameter(1)\n"
    if is_on:
        text += "  keep = f32[] parameter(2)\n"
        text += "  keeps = f32[4,8] broadcast(keep), dimensions={}\n"
    value = "x"
    for k in range(2):
        text += (
            f"  h{k} = f32[4,8] dot({value}, w), lhs_contracting_dims={{1}}, "
            "rhs_contracting_dims={0}\n"
            f"  y{k} = f32[4,8] tanh(h{k})\n"
        )
        value = f"y{k}"
        if is_on:
            text += dropped.replace("#", str(k))
            value = f"d{k}"
    last = f"  m = f32[4,8] convert({value})\n  r = f32[4,8] cosine(m)\n"
    text += last if is_on else f"  r = f32[4,8] cosine({value})\n"
    return f"{text}{other}  ROOT t = (f32[4,8]) tuple(r)\n}}\n"


MASK = """  b# = f32[4,8] rng(keep, keep), distribution=rng_uniform
  c# = pred[4,8] compare(b#, keeps), direction=LT
  f# = f32[4,8] convert(c#)
  s# = f32[4,8] divide(f#, keeps)
  d# = f32[4,8] multiply(y#, s#)
"""


@pytest.mark.parametrize("is_turned", [False, True])
def test_masks_that_one_side_draws_are_dropout_and_nothing_else(is_turned):
    sides = [masked(MASK, is_on=True), masked(MASK, is_on=False)]
    explanation = explain_modules(*map(read_module, sides[::-1] if is_turned else sides))
    assert explanation.proved
    (cause,) = explanation.causes
    assert cause.kind.id == "random-numbers"
    side = "B" if is_turned else "A"
    other = "A" if is_turned else "B"
    told = f"Dropout is on in {side} only: p is 0 in {other}, or eval() was called"
    assert str(cause.in_short) == told


@pytest.mark.parametrize(
    "other",
    [
        MASK.replace("multiply(y#", "add(y#"),  # noise
        MASK.replace("divide(f#, keeps)", "copy(f#)"),  # a mask that nothing is scaled by
        MASK.replace("multiply(y#, s#)", "power(y#, s#)"),
    ],
)
def test_random_numbers_that_are_no_masks_are_no_dropout(other):
    sides = masked(other, is_on=True), masked(other, is_on=False)
    explanation = explain_modules(*map(read_module, sides))
    assert "Dropout" not in str(explanation.verdict.what)
