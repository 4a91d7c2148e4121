"""A factor or term that one side leaves out: told as such where both sides compute it."""

from __future__ import annotations

import pytest

from xlagraph.explain import explain_modules
from xlagraph.hlo import read_module


def module(piece: str, taken: str):
    """Two values, a piece of one line that may use them, and what takes its result."""
    note = 'metadata={op_name="jit(f)/op" source_file="a.py" source_line='
    lines = [f"  {line}, {note}7}}\n" for line in piece.splitlines()]
    return read_module(
        "HloModule m\n\nENTRY e {\n  x = f32[4] parameter(0)\n  y = f32[4] parameter(1)\n"
        f"  s = f32[4] sine(x), {note}5}}\n  c = f32[4] cosine(y), {note}6}}\n{''.join(lines)}"
        f"  r = f32[4] tanh({taken}), {note}8}}\n  ROOT t = (f32[4], f32[4]) tuple(r, c)\n}}\n",
        "m",
    )


PLAIN = ("", "s")


@pytest.mark.parametrize(
    ("operation", "said", "short"),
    [
        ("multiply", "s (f32[4]) times c", "A factor is multiplied on one side only"),
        ("divide", "s (f32[4]) divided by c", "A factor is multiplied on one side only"),
        ("add", "s (f32[4]) and c", "A term is added on one side only"),
    ],
)
@pytest.mark.parametrize("turned", [False, True])
def test_both_sides_compute_the_factor(operation, said, short, turned):
    pair = [module(f"f = f32[4] {operation}(s, c)", "f"), module(*PLAIN)]
    explanation = explain_modules(*(reversed(pair) if turned else pair))
    (cause,) = explanation.causes
    assert cause.proved
    assert cause.kind.id == "extra-subgraph"
    assert f"a.py:7: {said}, which both sides compute" in str(cause.title)
    assert str(cause.short).startswith(short)


@pytest.mark.parametrize(
    ("piece", "taken", "short"),
    [
        ("n = f32[4] negate(c)\nf = f32[4] multiply(s, n)", "f", ""),  # one side alone computes it
        ("g = f32[4] multiply(s, c)\nf = f32[4] negate(g)", "f", ""),  # more than a factor
        ("f = f32[4] multiply(s, s)", "f", ""),
        ("f = f32[4] exponential(s)", "f", "exponential is computed on one side only"),
    ],
)
def test_other_pieces_are_told_as_what_they_are(piece, taken, short):
    (cause,) = explain_modules(module(piece, taken), module(*PLAIN)).causes
    assert cause.proved
    assert "both sides compute" not in str(cause.title)
    assert str(cause.short).startswith(short or "A value is computed in another way: tanh(")
