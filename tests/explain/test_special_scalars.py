"""The Python numbers of which torch_xla makes constants."""

from __future__ import annotations

import pytest

from xlagraph.explain import explain_modules
from xlagraph.hlo import read_module

STEP = (
    "HloModule m\n\nENTRY e {{\n  w = f32[4] parameter(0)\n  g = f32[4] parameter(1)\n"
    "  rate = f32[] {rate}\n  wide = f32[4] broadcast(rate), dimensions={{}}\n"
    "  step = f32[4] multiply(g, wide)\n  ROOT new = f32[4] add(w, step)\n}}\n"
)


@pytest.mark.parametrize(
    ("constant", "kind", "advice"),
    [
        ("0", "special-scalar", "XLA_NO_SPECIAL_SCALARS"),
        ("-0", "special-scalar", "XLA_NO_SPECIAL_SCALARS"),
        ("-1", "special-scalar", "XLA_NO_SPECIAL_SCALARS"),
        ("2", "static-argument", "static_argnums"),
    ],
)
def test_a_number_that_became_a_constant(constant, kind, advice):
    before = read_module(STEP.format(rate="parameter(2)"), "a")
    after = read_module(STEP.format(rate=f"constant({constant})"), "b")
    (cause,) = explain_modules(before, after).causes
    assert (cause.kind.id, cause.proved) == (kind, True)
    assert advice in str(cause.fix)
