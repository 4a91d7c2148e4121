"""A link more in a chain of one opcode: which of them are the other module's."""

from __future__ import annotations

import pytest

from xlagraph.diff import diff_modules
from xlagraph.hlo import read_module


def step(*factors):
    """The product of an input's tanh with these, one after the other, and its exponential."""
    lines, last = "", "%t"
    for k, factor in enumerate(factors):
        lines += f"  %m{k} = f32[4]{{0}} multiply(f32[4]{{0}} {last}, f32[4]{{0}} {factor})\n"
        last = f"%m{k}"
    return read_module(
        "HloModule step\n\nENTRY %main (p: f32[4], q: f32[4]) -> f32[4] {\n"
        "  %p = f32[4]{0} parameter(0)\n  %q = f32[4]{0} parameter(1)\n"
        "  %t = f32[4]{0} tanh(f32[4]{0} %p)\n  %s = f32[4]{0} logistic(f32[4]{0} %t)\n"
        f"  %n = f32[4]{{0}} cosine(f32[4]{{0}} %q)\n{lines}"
        f"  ROOT %e = f32[4]{{0}} exponential(f32[4]{{0}} {last})\n}}\n"
    )


@pytest.mark.parametrize(
    ("a", "b"),
    [(("%s",), ("%s", "%n")), (("%s", "%n"), ("%s",)), (("%s",), ("%s", "%n", "%n"))],
    ids=["more in B", "more in A", "two more"],
)
def test_the_link_that_is_made_alike_is_the_other_modules(a, b):
    """A mask multiplies what a product gives, as dropout behind silu does."""
    diff = diff_modules(step(*a), step(*b))
    found = {diff.a.names[x]: diff.b.names[y] for x, y in enumerate(diff.match.to_b) if y >= 0}
    assert found["m0"] == "m0"
    assert found["e"] == "e"
