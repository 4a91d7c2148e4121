"""Random numbers of one use that come from another generator on the other side."""

from __future__ import annotations

import pytest

from xlagraph.explain import explain_modules
from xlagraph.hlo import read_module

THREEFRY = """
threefry2x32 {
  key = u32[2] parameter(0)
  place = u32[8,4] parameter(1)
  one = u32[1] slice(key), slice={[0:1]}
  scalar = u32[] reshape(one)
  keys = u32[8,4] broadcast(scalar), dimensions={}
  shift = u32[] constant(13)
  shifts = u32[8,4] broadcast(shift), dimensions={}
  moved = u32[8,4] shift-left(place, shifts)
  ROOT bits = u32[8,4] xor(moved, keys)
}
"""
DRAW_THREEFRY = """  place = u32[8,4] iota(), iota_dimension=0
  bits = u32[8,4] call(key, place), to_apply=threefry2x32
  again = u32[8,4] iota(), iota_dimension=1
  other = u32[8,4] call(key, again), to_apply=threefry2x32
  first = u32[1,2] slice(other), slice={[0:1], [0:2]}
  new_key = u32[2] reshape(first)
"""
DRAW_RBG = """  drawn = (u32[4], u32[8,4]) rng-bit-generator(key), algorithm=rng_default
  bits = u32[8,4] get-tuple-element(drawn), index=1
  new_key = u32[4] get-tuple-element(drawn), index=0
"""


def dropout(words: int, draw: str, *, kept: str = "0.9", activation: str = "tanh") -> str:
    """A layer with dropout: the bits become numbers, and those a mask."""
    return f"""HloModule dropout
{THREEFRY if words == 2 else ""}
ENTRY main {{
  key = u32[{words}] parameter(0)
  x = f32[8,4] parameter(1)
{draw}  numbers = f32[8,4] convert(bits)
  share = f32[] constant(0.00001)
  shares = f32[8,4] broadcast(share), dimensions={{}}
  uniform = f32[8,4] multiply(numbers, shares)
  kept = f32[] constant({kept})
  limit = f32[8,4] broadcast(kept), dimensions={{}}
  mask = pred[8,4] compare(uniform, limit), direction=LT
  h = f32[8,4] {activation}(x)
  zero = f32[] constant(0)
  zeros = f32[8,4] broadcast(zero), dimensions={{}}
  o = f32[8,4] select(mask, h, zeros)
  ROOT all = (f32[8,4], u32[{words}]) tuple(o, new_key)
}}
"""


@pytest.mark.parametrize("turned", [False, True])
def test_another_generator_is_one_cause(turned: bool):
    texts = [dropout(2, DRAW_THREEFRY), dropout(4, DRAW_RBG)]
    explanation = explain_modules(*map(read_module, reversed(texts) if turned else texts))
    (cause,) = explanation.causes
    assert cause.proved
    side, other = "BA" if turned else "AB"
    title = str(cause.title)
    assert title.startswith("random numbers come from another generator: ")
    assert f"threefry2x32 in {side}" in title
    assert f"rng-bit-generator in {other}" in title
    assert "another generator" in str(explanation.verdict.what)


def test_what_differs_beside_it_is_told_for_itself():
    a = read_module(dropout(2, DRAW_THREEFRY))
    b = read_module(dropout(4, DRAW_RBG, activation="cosine"))
    explanation = explain_modules(a, b)
    assert explanation.proved
    assert len(explanation.causes) == 2
    assert any("another generator" in str(cause.title) for cause in explanation.causes)
    assert any("cosine" in str(cause.title) for cause in explanation.causes)


def test_what_only_one_side_draws_is_no_other_generator():
    b = dropout(4, DRAW_RBG).replace("compare(uniform, limit)", "compare(x, limit)")
    explanation = explain_modules(read_module(dropout(2, DRAW_THREEFRY)), read_module(b))
    titles = [str(cause.title) for cause in explanation.causes]
    assert not (explanation.proved and any("another generator" in title for title in titles))
