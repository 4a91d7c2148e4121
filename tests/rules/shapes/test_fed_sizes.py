"""A size that comes in with an input which one side alone mixes is no size that Python makes."""

from __future__ import annotations

import pytest

from xlagraph.cause.finding import Finding
from xlagraph.cause.model import Evidence
from xlagraph.diff import diff_modules
from xlagraph.explain import explain_modules
from xlagraph.facts.shapes.fed_sizes import gives_windows
from xlagraph.hlo import read_module
from xlagraph.message import say
from xlagraph.rules.shapes.sizes import ATTRIBUTE


def step(size: int, *, mixes: bool) -> str:
    """Images that are mixed in some order or not, in front of layers with weights of one size."""
    shape, made = f"f32[6,{size}]", f"f32[6,{size},4]"
    text = f"HloModule step\n\nENTRY main {{\n  x = {shape} parameter(0)\n"
    text += "  w = f32[4] parameter(1)\n"
    if mixes:
        text += f"  lam = f32[] parameter(2)\n  l = {shape} broadcast(lam), dimensions={{}}\n"
        text += f"  r = {shape} reverse(x), dimensions={{0}}\n  a = {shape} multiply(l, x)\n"
        text += f"  b = {shape} cosine(r)\n  mix = {shape} add(a, b)\n"
    text += f"  s = {made} broadcast({'mix' if mixes else 'x'}), dimensions={{0,1}}\n"
    text += f"  v = {made} broadcast(w), dimensions={{2}}\n  y = {made} multiply(s, v)\n"
    text += f"  t = {made} tanh(y)\n  e = {made} exponential(t)\n"
    return text + f"  ROOT z = {made} sine(e)\n}}\n"


def test_another_size_and_a_mix_that_is_off_are_two_causes():
    a, b = read_module(step(8, mixes=True), "a"), read_module(step(12, mixes=False), "b")
    for first, second in ((a, b), (b, a)):
        found = explain_modules(first, second)
        assert found.proved
        kinds = {str(cause.kind) for cause in found.causes}
        assert "input-shape" in kinds
        assert "python-size" not in kinds
        assert len(kinds) > 1


MADE = """HloModule step

ENTRY main {{
  x = f32[6] parameter(0)
  ones = f32[{rows},6] broadcast(x), dimensions={{1}}
  t = f32[{rows},6] tanh(ones)
  ROOT e = f32[{rows},6] exponential(t)
}}
"""


def test_a_size_that_is_made_in_the_step_stays_one():
    a, b = (read_module(MADE.format(rows=rows), "m") for rows in (4, 6))
    (cause,) = explain_modules(a, b).causes
    assert str(cause.kind) == "python-size"


def test_of_two_inputs_that_may_be_it_none_is_blamed():
    second = "  q = f32[6,8] parameter(3)\n  r = f32[6,8] reverse(q)"
    first = step(8, mixes=True).replace("  r = f32[6,8] reverse(x)", second)
    found = explain_modules(read_module(first), read_module(step(12, mixes=False)))
    assert not any(str(cause.title).startswith("an input has") for cause in found.causes)


CONVOLVED = """HloModule step

ENTRY main {{
  x = f32[2,3,12,12] parameter(0)
  g = f32[2,5,{size},{size}] parameter(1)
  ROOT c = f32[3,5] convolution(x, g), window={{size={size}x{size}{more}}}, dim_labels=fb01_io01->bf01
}}
"""  # noqa: E501


@pytest.mark.parametrize(
    ("more", "sizes", "follows"),
    [("", {(4, 6)}, True), ("", {(8, 12)}, False), (" stride=2x2", {(4, 6)}, False)],
)
def test_the_window_of_a_gradient_follows_from_the_size_of_what_was_convolved(more, sizes, follows):
    a = read_module(CONVOLVED.format(size=4, more=""))
    b = read_module(CONVOLVED.format(size=6, more=more))
    cited = Evidence(say("window"), (2,), (2,))
    finding = Finding(kind=ATTRIBUTE, title=say("window"), evidence=(cited,), proof=say())
    assert gives_windows(frozenset(sizes), finding, diff_modules(a, b)) == follows
