"""Parts that are cut out of another value, as the truth or what was predicted before it."""

from __future__ import annotations

import pytest

from xlagraph.explain import explain_modules
from xlagraph.hlo import read_module


def step(value: str, start: int) -> str:
    """A step of which one column of a value goes on: of the targets, or of what is predicted."""
    return f"""HloModule step

ENTRY main {{
  target = f32[4,6] parameter(0)
  x = f32[4,3] parameter(1)
  predicted = f32[4,3] tanh(x)
  column = f32[4,1] slice({value}), slice={{[0:4], [{start}:{start + 1}]}}
  next = f32[4,1] exponential(column)
  squared = f32[4,6] multiply(target, target)
  ROOT all = (f32[4,1], f32[4,6], f32[4,3]) tuple(next, squared, predicted)
}}
"""


@pytest.mark.parametrize("turned", [False, True])
def test_a_part_of_another_value_is_one_cause(turned: bool) -> None:
    texts = [step("target", 3), step("predicted", 1)]
    a, b = (read_module(text) for text in (reversed(texts) if turned else texts))
    explanation = explain_modules(a, b)
    (cause,) = explanation.causes
    assert (cause.kind.id, cause.proved) == ("other-operand", True)
    own = ["input 0 (f32[4,6])", "predicted (f32[4,3])"]
    in_a, in_b = reversed(own) if turned else own
    assert str(cause.in_short) == f"slice takes a part of {in_b} in B and of {in_a} in A"


def test_another_part_of_one_value_is_an_index() -> None:
    a, b = (read_module(step("target", start)) for start in (3, 4))
    (cause,) = explain_modules(a, b).causes
    assert cause.kind.id == "python-index"
