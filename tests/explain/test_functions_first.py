"""Of two edits the one that names its functions comes before a piece of which nothing tells."""

from __future__ import annotations

import pytest

from xlagraph.explain import explain_modules
from xlagraph.hlo import read_module

RELU = ("zero = f32[] constant(0)", "zeros = f32[4,4] broadcast(zero), dimensions={}",
        "f = f32[4,4] maximum(h, zeros)")  # fmt: skip
SILU = ("s = f32[4,4] logistic(h)", "f = f32[4,4] multiply(h, s)")
PRODUCT = "lhs_contracting_dims={1}, rhs_contracting_dims={0}"
TURNED = (
    f"t = f32[4,4] dot(w, y), {PRODUCT}",
    "c = f32[4,4] cosine(t)",
    f"d = f32[4,4] dot(c, w), {PRODUCT}",
    "i = f32[4,4] sine(d)",
    f"e = f32[4,4] dot(i, c), {PRODUCT}",
)
PLAIN = (
    "t = f32[4,4] sort(y), dimensions={1}, to_apply=less",
    "c = f32[4,4] reverse(t), dimensions={0}",
    "e = f32[4,4] sort(c), dimensions={0}, to_apply=less",
)


def module(name: str, function: tuple[str, ...], rest: tuple[str, ...]) -> str:
    """A function of a product, and another value, on two lines of one file."""
    head = [f"{name} = f32[4,4] parameter({k})" for k, name in enumerate("xwy")]
    product = f"h = f32[4,4] dot(x, w), {PRODUCT}"
    body = [f"  {line}\n" for line in head]
    for number, lines in ((3, (product,)), (5, function), (9, rest)):
        at = f', metadata={{op_name="jit/step" source_file="{name}.py" source_line={number}}}'
        body += [f"  {line}{at}\n" for line in lines]
    less = "less { p = f32[] parameter(0) q = f32[] parameter(1) ROOT l = pred[] compare(p, q), "
    return (
        f"HloModule jit_{name}\n\n{less}direction=LT }}\n\nENTRY main {{\n{''.join(body)}"
        f"  g = f32[4,4] dot(f, y), {PRODUCT}\n  m = f32[4,4] tanh(e)\n"
        "  ROOT r = (f32[4,4], f32[4,4]) tuple(g, m)\n}\n"
    )


def test_functions_by_name_come_first() -> None:
    a = read_module(module("one", RELU, TURNED))
    b = read_module(module("two", SILU, PLAIN))
    found = explain_modules(a, b)
    assert found.proved
    told = str(found.verdict)
    assert "sine or with sort, two.py:9" in told
    assert str(found.verdict.what) == (
        "A value is computed in another way: relu(x) became silu(x)."
    )


@pytest.mark.parametrize(("function", "rest"), [(RELU, PLAIN), (SILU, TURNED)])
def test_a_piece_alone_stays_first(function: tuple[str, ...], rest: tuple[str, ...]) -> None:
    other = PLAIN if rest is TURNED else TURNED
    a, b = read_module(module("one", function, rest)), read_module(module("two", function, other))
    assert "relu" not in str(explain_modules(a, b).verdict.what)
