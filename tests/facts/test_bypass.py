"""What stands before a use on one side only, where the use takes its values at other places."""

from __future__ import annotations

import pytest

from xlagraph.explain import explain_modules
from xlagraph.hlo import read_module

STEP = """HloModule step

ENTRY main {
  x = f32[4] parameter(0)
  y = f32[4] parameter(1)
  a = f32[4] sine(x)
  b = f32[4] cosine(y)
  c = f32[4] power(a, b)
MORE  p = f32[4] OPERATION(PLACES)
  q = f32[4] divide(p, c)
  ROOT r = (f32[4], f32[4]) tuple(q, c)
}
"""
PIECE = "  t = f32[4] tanh(b)\n  f = f32[4] abs(t)\n"


def kinds(operation: str, first: str, second: str) -> tuple[bool, set[str]]:
    step = STEP.replace("OPERATION", operation)
    plain = step.replace("PLACES", first).replace("MORE", "")
    more = step.replace("PLACES", second).replace("MORE", PIECE)
    explanation = explain_modules(read_module(plain), read_module(more))
    return explanation.proved, {cause.kind.id for cause in explanation.causes}


@pytest.mark.parametrize("operation", ["multiply", "add", "maximum"])
def test_a_piece_before_an_operation_that_takes_its_values_the_other_way_round(operation):
    assert kinds(operation, "a, b", "a, f") == (True, {"extra-subgraph"})
    assert kinds(operation, "a, b", "f, a") == (True, {"extra-subgraph"})


def test_what_may_not_be_exchanged_is_more_than_a_piece():
    proved, found = kinds("subtract", "a, b", "f, a")
    assert not proved or found != {"extra-subgraph"}
