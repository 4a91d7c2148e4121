"""What is left of a step where new tensors are zero."""

import pytest

from xlagraph.facts.training.updates import at_zero
from xlagraph.hlo import read_module

STEP = """HloModule step

ENTRY main {{
  weight = f32[4]{{0}} parameter(0)
  state = f32[4]{{0}} parameter(1)
  other = f32[4]{{0}} parameter(2)
  read = f32[4]{{0}} {read}
  ROOT new = f32[4]{{0}} add(weight, read)
}}
"""


@pytest.mark.parametrize(
    ("read", "vanishes"),
    [
        ("multiply(state, weight)", True),
        ("negate(state)", True),
        ("divide(state, weight)", True),
        ("maximum(state, other)", True),
        ("add(state, other)", True),
        ("exponential(state)", False),  # one
        ("cosine(state)", False),
        ("divide(weight, state)", False),
        ("maximum(state, weight)", False),
        ("power(state, other)", False),
    ],
)
def test_only_what_is_zero_at_zero_vanishes(read: str, vanishes: bool) -> None:
    module = read_module(STEP.format(read=read), "step")
    at = dict(zip(module.names, range(len(module)), strict=True))
    zeros, left = at_zero(module, [at["state"], at["other"]])
    assert (at["state"] in zeros) == vanishes
    assert (left.get(at["new"]) == at["weight"]) == vanishes
