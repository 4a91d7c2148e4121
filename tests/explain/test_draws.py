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
