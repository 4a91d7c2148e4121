"""Gradients that one side alone gives out, as where a target is not detached."""

from __future__ import annotations

import pytest

from xlagraph.explain import explain_modules
from xlagraph.hlo import read_module

BACKWARD = """
dw = f32[2,4] dot(xt, g), lhs_contracting_dims={1}, rhs_contracting_dims={0}
z = f32[] constant(0)
db = f32[4] reduce(g, z), dimensions={0}, to_apply=plus
"""
ADDED = f"""
{BACKWARD}
ow = f32[2,4] parameter(4)
ob = f32[4] parameter(5)
one = f32[] constant(1)
ones = f32[4] broadcast(one), dimensions={{}}
db1 = f32[4] multiply(db, ones)
sw = f32[2,4] add(dw, ow)
sb = f32[4] add(db1, ob)
"""


def module(piece: str = "", *given: str, name: str = "SyncTensorsGraph.9"):
    lines = (
        "x = f32[3,2] parameter(0)",
        "w = f32[2,4] parameter(1)",
        "b = f32[4] parameter(2)",
        "y = f32[3,4] parameter(3)",
        "xt = f32[2,3] transpose(x), dimensions={1,0}",
        "p = f32[3,4] dot(x, w), lhs_contracting_dims={1}, rhs_contracting_dims={0}",
        "bs = f32[3,4] broadcast(b), dimensions={1}",
        "o = f32[3,4] add(p, bs)",
        "g = f32[3,4] subtract(o, y)",
        *piece.split("\n"),
    )
    shapes = {line.split(" = ")[0]: line.split(" = ")[1].split()[0] for line in lines if line}
    outputs = ("g", *given)
    root = f"ROOT r = ({', '.join(shapes[one] for one in outputs)}) tuple({', '.join(outputs)})"
    body = "".join(f"  {line}\n" for line in (*filter(None, lines), root))
    plus = (
        "plus {\n  i = f32[] parameter(0)\n  j = f32[] parameter(1)\n  ROOT s = f32[] add(i, j)\n}"
    )
    return read_module(f"HloModule {name}\n{plus}\nENTRY main {{\n{body}}}\n")


@pytest.mark.parametrize(
    ("other", "are_added"),
    [(module(BACKWARD, "dw", "db"), False), (module(ADDED, "sw", "sb"), True)],
)
def test_gradients_that_only_one_side_computes_are_told_as_such(other, are_added):
    explanation = explain_modules(module(), other)
    (cause,) = explanation.causes
    assert explanation.proved
    assert str(cause.in_short) == "Gradients reach more weights in some steps"
    assert "2 gradients that A does not, among them of input 1 (f32[2,4])" in str(cause.title)
    assert ".detach()" in str(cause.fix)
    assert any("were not zeroed" in str(one.text) for one in cause.evidence) == are_added


@pytest.mark.parametrize(
    ("first", "other", "short"),
    [
        (module(), module(BACKWARD, "db"), "A tensor is kept"),
        (module(), module(f"{BACKWARD}m = f32[2,4] sine(dw)", "m", "db"), "A tensor is kept"),
        (
            module(name="jit_f"),
            module(BACKWARD, "dw", "db", name="jit_f"),
            "A gradient is given out",
        ),
    ],
)
def test_what_need_be_no_gradient_stays_a_tensor(first, other, short):
    """A sum alone may be a metric; and jax.grad is asked for gradients by name."""
    cause = explain_modules(first, other).causes[0]
    assert str(cause.in_short).startswith(short)


def test_a_gradient_that_both_compute_is_merely_alive():
    used = f"{BACKWARD}u = f32[2,4] subtract(w, dw)"
    explanation = explain_modules(module(used, "u"), module(used, "u", "dw"))
    assert str(explanation.causes[0].in_short).startswith("A gradient is given out")
