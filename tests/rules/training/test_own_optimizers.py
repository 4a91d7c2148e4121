"""State of an optimizer that the program has written itself, and what only looks like that."""

from __future__ import annotations

import re

from xlagraph.explain import explain_modules
from xlagraph.hlo import read_module

LINE = 'metadata={op_type="aten__add" source_file="train.py" source_line=33}'
SECOND = f"""HloModule step

ENTRY main {{
  x = f32[4,8] parameter(0)
  w = f32[8,8] parameter(1)
  rate = f32[] parameter(2)
  m = f32[8,8] parameter(3)
  decay = f32[] parameter(4)
  rates = f32[8,8] broadcast(rate), dimensions={{}}
  decays = f32[8,8] broadcast(decay), dimensions={{}}
  y = f32[4,8] dot(x, w), lhs_contracting_dims={{1}}, rhs_contracting_dims={{0}}
  e = f32[4,8] sine(y)
  g = f32[8,8] dot(x, e), lhs_contracting_dims={{0}}, rhs_contracting_dims={{0}}
  old = f32[8,8] multiply(m, decays), {LINE}
  n = f32[8,8] add(old, g), {LINE}
  d = f32[8,8] multiply(n, rates), {LINE}
  nw = f32[8,8] subtract(w, d), {LINE}
  ROOT r = (f32[4,8], f32[8,8], f32[8,8]) tuple(y, nw, n)
}}
"""


def without(module: str, *names: str) -> str:
    """The module without the instructions of these names, each alone in its line."""
    for name in names:
        module = re.sub(rf"^  {name} = .*\n", "", module, flags=re.MULTILINE)
    return module


FIRST = without(SECOND, "decay", "m", "decays", "old", "n").replace(
    "multiply(n, rates)", "multiply(g, rates)"
).replace("tuple(y, nw, n)", "tuple(y, nw, g)")  # fmt: skip


def kinds(first: str, second: str) -> list[str]:
    explanation = explain_modules(read_module(first, "a"), read_module(second, "b"))
    assert explanation.proved
    return [cause.kind.id for cause in explanation.causes]


def test_momentum_that_the_program_makes_in_its_first_step():
    assert kinds(FIRST, SECOND) == ["optimizer-state"]


def test_a_gradient_of_several_batches_is_none():
    """It is added up, and does not decay."""
    added_up = without(SECOND, "decay", "decays", "old").replace("add(old, g)", "add(m, g)")
    assert "optimizer-state" not in kinds(FIRST, added_up)


def test_an_average_that_updates_no_weight_is_none():
    beside = SECOND.replace("multiply(n, rates)", "multiply(g, rates)")
    assert "optimizer-state" not in kinds(FIRST, beside)


def test_state_that_the_first_step_does_not_give_back_is_none():
    """A table of offsets that comes in later, say."""
    late = FIRST.replace("(f32[4,8], f32[8,8], f32[8,8]) tuple(y, nw, g)",
                         "(f32[4,8], f32[8,8]) tuple(y, nw)")  # fmt: skip
    assert "optimizer-state" not in kinds(late, SECOND)
