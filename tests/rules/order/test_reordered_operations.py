"""Augmentations of one batch that are applied in another order."""

from __future__ import annotations

import pytest

from xlagraph.explain import explain_modules
from xlagraph.hlo import read_module

CONTRAST = """  m{k} = f32[4] sine({source})
  d{k} = f32[4] subtract({source}, m{k})
  e{k} = f32[4] multiply(d{k}, two)
  {name} = f32[4] add(e{k}, m{k})
"""
NOISE = """  n = f32[4] parameter(1)
  s = f32[4] multiply(n, half)
  {name} = f32[4] add({source}, s)
"""


def augmented(*steps: str, noise: str = NOISE, also: str = "") -> str:
    parts, source = [], "x"
    for k, step in enumerate(steps):
        text = {"contrast": CONTRAST, "noise": noise}[step]
        parts.append(text.format(k=k, source=source, name=f"y{k}"))
        source = f"y{k}"
    root = f"(f32[4], f32[4]) tuple(out, {also})" if also else "f32[4] copy(out)"
    return f"""HloModule augmented

ENTRY main {{
  x = f32[4] parameter(0)
  one = f32[] constant(2)
  two = f32[4] broadcast(one), dimensions={{}}
  other = f32[] constant(0.5)
  half = f32[4] broadcast(other), dimensions={{}}
{"".join(parts)}  out = f32[4] tanh({source})
  ROOT r = {root}
}}
"""


def told(a: str, b: str):
    return explain_modules(read_module(a, "a"), read_module(b, "b"))


@pytest.mark.parametrize("turned", [False, True])
def test_the_same_operations_in_another_order_are_one_cause(turned):
    texts = [augmented("contrast", "noise"), augmented("noise", "contrast")]
    explanation = told(*(reversed(texts) if turned else texts))
    (cause,) = explanation.causes
    assert (str(cause.kind), cause.proved) == ("replaced-subgraph", True)
    sides = ("A", "B") if turned else ("B", "A")
    assert str(cause.short) == "add comes before sine in {}, and behind that in {}".format(*sides)
    assert str(cause.title).startswith("the same 6 operations stand in another order")


@pytest.mark.parametrize(
    "other",
    [
        augmented("noise", "contrast", "contrast"),
        augmented("noise", "contrast", noise=NOISE.replace("multiply", "divide")),
        augmented("noise", "contrast", noise=NOISE.replace("(n, half)", "(x, half)")),
        augmented("noise", "contrast", also="y0"),
    ],
    ids=["once more", "another operation", "another value", "also used elsewhere"],
)
def test_other_differences_are_no_other_order(other):
    also = "y0" if "tuple" in other else ""
    for explanation in (
        told(augmented("contrast", "noise", also=also), other),
        told(other, augmented("contrast", "noise", also=also)),
    ):
        assert not any("another order" in str(one.short) for one in explanation.causes)
