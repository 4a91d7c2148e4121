"""A conversion of the forward pass on one side only, and the one that the backward pass has."""

from __future__ import annotations

import pytest

from xlagraph.explain import explain_modules
from xlagraph.hlo import read_module


def at(line: int) -> str:
    return f'metadata={{source_file="net.py" source_line={line}}}'


def side(*, is_converted: bool):
    """A value that is computed in float32 where it is converted, and converted back behind it."""
    kind, e, d = ("f32", "c", "k") if is_converted else ("bf16", "t", "s")
    lines = (
        "x = bf16[4,8] parameter(0)",
        "g = bf16[4,8] parameter(1)",
        f"t = bf16[4,8] tanh(x), {at(1)}",
        f"c = f32[4,8] convert(t), {at(2)}" if is_converted else "",
        f"e = {kind}[4,8] exponential({e}), {at(3)}",
        "n = f64[] constant(2)",
        f"m = {kind}[] convert(n), {at(4)}",
        f"b = {kind}[4,8] broadcast(m), dimensions={{}}",
        f"s = {kind}[4,8] multiply(e, b), {at(4)}",
        f"k = bf16[4,8] convert(s), {at(5)}" if is_converted else "",
        f"d = bf16[4,8] multiply({d}, g)",
        "ROOT r = (bf16[4,8]) tuple(d)",
    )
    body = "".join(f"  {line}\n" for line in lines if line)
    return read_module(f"HloModule SyncTensorsGraph.9\nENTRY main {{\n{body}}}\n")


@pytest.mark.parametrize("turned", [False, True])
def test_it_begins_at_the_conversion_that_the_others_come_of(turned: bool):
    explanation = explain_modules(side(is_converted=turned), side(is_converted=not turned))
    assert explanation.proved
    (cause,) = explanation.causes
    assert str(cause.kind) == "dtype"
    assert str(explanation.verdict.where) == "net.py:2"
    what = str(explanation.verdict.what)
    assert what.startswith("A value (bf16[4,8]) is converted to f32 before exponential, multiply")
    assert "in every step, or in none" in str(explanation.verdict.fix)
    assert "origin: c converts bf16[4,8] to f32" in str(cause.evidence[0].text)
