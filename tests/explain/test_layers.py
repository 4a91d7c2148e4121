"""Layers in place of others are told by name, each for itself, beside what else differs."""

from __future__ import annotations

import pytest

from xlagraph.explain import explain_modules
from xlagraph.hlo import read_module

HEAD = "".join(
    f"{name} {{ p = f32[] parameter(0) q = f32[] parameter(1) ROOT r = f32[] {name}(p, q) }}\n\n"
    for name in ("add", "maximum")
)
START = (
    "x = f32[4,8] parameter(0)",
    "w = f32[4,4] parameter(1)",
    "k = pred[4,4] parameter(2)",
    "zero = f32[] constant(0)",
)
MAX = (
    "low = f32[] constant(-inf)",
    "padded = f32[4,10] pad(x, low), padding=0_0x1_1",
    "pooled = f32[4,5] reduce-window(padded, low), window={size=1x2 stride=1x2}, to_apply=maximum",
)
AVG = (
    "low = f32[] constant(0)",
    "padded = f32[4,10] pad(x, low), padding=0_0x1_1",
    "sums = f32[4,5] reduce-window(padded, low), window={size=1x2 stride=1x2}, to_apply=add",
    "two = f32[] constant(2)",
    "twos = f32[4,5] broadcast(two), dimensions={}",
    "pooled = f32[4,5] divide(sums, twos)",
)
SECOND = (
    "first = f32[4,4] slice(pooled), slice={[0:4], [0:4]}",
    "h = f32[4,4] dot(first, w), lhs_contracting_dims={1}, rhs_contracting_dims={0}",
)
MEAN = (
    "s = f32[] reduce(h, zero), dimensions={0,1}, to_apply=add",
    "n = f32[] constant(16)",
    "loss = f32[] divide(s, n)",
)
MASKED = (
    "m = f32[4,4] convert(k)",
    "kept = f32[4,4] multiply(h, m)",
    "s = f32[] reduce(kept, zero), dimensions={0,1}, to_apply=add",
    "n = f32[] reduce(m, zero), dimensions={0,1}, to_apply=add",
    "one = f32[] constant(1)",
    "g = f32[] maximum(n, one)",
    "loss = f32[] divide(s, g)",
)
POOLING = "max_pool became avg_pool"
OF_MASK = "over those alone that a mask keeps in B"


def told(*sides: tuple[tuple[str, ...], ...]) -> tuple[bool, list[str]]:
    """Whether two modules are explained with a proof, and their causes in short."""
    modules = []
    for parts in sides:
        lines = [f"  {line}" for part in (START, *parts) for line in part]
        end = "  ROOT r = (f32[], pred[4,4]) tuple(loss, k)"
        text = "\n".join([*lines, end])
        modules.append(read_module(f"HloModule m\n\n{HEAD}ENTRY main {{\n{text}\n}}\n"))
    found = explain_modules(*modules)
    return found.proved, [str(cause.in_short) for cause in found.causes]


def test_pooling_is_told_with_its_first_number() -> None:
    proved, causes = told((MAX, SECOND, MEAN), (AVG, SECOND, MEAN))
    assert proved
    assert [POOLING in cause for cause in causes] == [True], causes


def test_two_layers_are_two_causes() -> None:
    proved, causes = told((MAX, SECOND, MEAN), (AVG, SECOND, MASKED))
    assert proved
    assert sorted((POOLING in c, OF_MASK in c) for c in causes) == [(False, True), (True, False)]


@pytest.mark.parametrize("scaled", ["cosine", "sine"])
def test_what_else_the_forward_pass_has_is_told_as_well(scaled: str) -> None:
    other = (f"turned = f32[4,4] {scaled}(w)", *SECOND[:1], SECOND[1].replace("w)", "turned)"))
    proved, causes = told((MAX, SECOND, MEAN), (AVG, other, MEAN))
    assert proved
    assert any(POOLING in cause for cause in causes)
    assert any(scaled in cause for cause in causes), causes


def test_another_number_beside_pooling_that_stays_is_a_number() -> None:
    three = tuple(line.replace("constant(16)", "constant(3)") for line in MEAN)
    proved, causes = told((MAX, SECOND, MEAN), (MAX, SECOND, three))
    assert proved
    assert not any(POOLING in cause or OF_MASK in cause for cause in causes)
