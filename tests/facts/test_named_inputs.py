"""Names of a first step's inputs, from what replaces them."""

from __future__ import annotations

from xlagraph.cause.model import Context
from xlagraph.facts.training.named_inputs import replaced_inputs, with_inputs_named
from xlagraph.hlo import read_module
from xlagraph.tensors import Role, Tensor

WEIGHT = Tensor("norm", "weight", Role.PARAMETER)
MOMENTUM = Tensor("norm", "weight", Role.STATE, "SGD", "momentum_buffer")

FIRST = """HloModule first

ENTRY %main (w: f32[8], x: f32[8]) -> (f32[8], f32[8]) {
  %w = f32[8]{0} parameter(0)
  %x = f32[8]{0} parameter(1)
  %g = f32[8]{0} reverse(f32[8]{0} %x), dimensions={0}
  %decay = f32[8]{0} multiply(f32[8]{0} %w, f32[8]{0} %w)
  %m = f32[8]{0} add(f32[8]{0} %g, f32[8]{0} %decay)
  %n = f32[8]{0} subtract(f32[8]{0} %w, f32[8]{0} %m)
  ROOT %t = (f32[8]{0}, f32[8]{0}) tuple(f32[8]{0} %m, f32[8]{0} %n)
}
"""
"""A gradient, the weight's decay added to it as the momentum's first value, and the new weight."""
LATER = """HloModule later

ENTRY %main (m: f32[8], w: f32[8]) -> (f32[8], f32[8]) {
  %w = f32[8]{0} parameter(1)
  %m = f32[8]{0} parameter(0)
  %old = f32[8]{0} negate(f32[8]{0} %m)
  %n = f32[8]{0} subtract(f32[8]{0} %w, f32[8]{0} %old)
  ROOT %t = (f32[8]{0}, f32[8]{0}) tuple(f32[8]{0} %old, f32[8]{0} %n)
}
"""
"""The momentum is there, and the weight is computed from both."""


def names(text, *outputs):
    context = Context(outputs=dict(enumerate(outputs)))
    return with_inputs_named(context, replaced_inputs(read_module(text))).parameters


def test_weight_decay_makes_no_momentum_of_a_weight():
    assert names(FIRST, MOMENTUM, WEIGHT) == {0: WEIGHT}


def test_a_momentum_that_is_there_stays_one():
    assert names(LATER, MOMENTUM, WEIGHT) == {0: MOMENTUM, 1: WEIGHT}


def test_what_is_no_state_of_the_weight_keeps_its_name():
    other = Tensor("head", "weight", Role.STATE, "SGD", "momentum_buffer")
    average = Tensor("average", "weight", Role.BUFFER)
    assert names(FIRST, other, WEIGHT) == {0: other}
    assert names(FIRST, average, WEIGHT) == {0: average}


ALONE = """HloModule alone

ENTRY %main (m: f32[8], w: f32[16]) -> (f32[8], f32[8]) {
  %m = f32[8]{0} parameter(0)
  %w = f32[16]{0} parameter(1)
  %kept = f32[8]{0} negate(f32[8]{0} %m)
  %part = f32[8]{0} slice(f32[16]{0} %w), slice={[0:8]}
  %n = f32[8]{0} subtract(f32[8]{0} %part, f32[8]{0} %kept)
  ROOT %t = (f32[8]{0}, f32[8]{0}) tuple(f32[8]{0} %kept, f32[8]{0} %n)
}
"""
"""The weight is cut from what was gathered, so that only the momentum has its shape."""


def test_a_momentum_that_makes_the_weight_by_its_own_new_value_stays_one():
    assert names(ALONE, MOMENTUM, WEIGHT) == {0: MOMENTUM}
