"""Whether a step computes with a tensor, past what torch_xla's FSDP wraps around it."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from xlagraph.cause.model import Context
from xlagraph.facts.distributed.unused import is_unused
from xlagraph.hlo import read_module
from xlagraph.tensors import Role, Tensor

BIAS = Tensor("head", "bias", Role.PARAMETER)
TEXT = """HloModule step

sum (x: f32[], y: f32[]) -> f32[] {
  x = f32[] parameter(0)
  y = f32[] parameter(1)
  ROOT s = f32[] add(x, y)
}

ENTRY main {
  w = f32[8] parameter(0)
  b = f32[4] parameter(1)
  zero = f32[] constant(0)
  first = s32[1] constant({0})
  both = (f32[8], f32[4]) tuple(w, b)
  behind = (f32[8], f32[4]) opt-barrier(both)
  w1 = f32[8] get-tuple-element(behind), index=0
  b1 = f32[4] get-tuple-element(behind), index=1
  zeros = f32[4] broadcast(zero), dimensions={}
  b2 = f32[4] add(b1, zeros)
  whole = f32[8] all-gather(b2), dimensions={0}
  one = f32[] gather(whole, first), offset_dims={}, collapsed_slice_dims={0}, start_index_map={0}, index_vector_dim=0, slice_sizes={1}
  token = f32[] multiply(zero, one)
  b3 = f32[6] slice(whole), slice={[0:6]}
  loss = f32[8] MADE
  ROOT out = (f32[8], f32[6], f32[], f32[4]) tuple(loss, b3, token, b1)
}
"""  # noqa: E501


@pytest.mark.parametrize(
    ("made", "is_it"),
    [
        ("multiply(w1, w1)", True),
        ("multiply(w1, whole)", False),
        ("add(w1, whole)", False),
        ("negate(whole)", False),
        ("pad(b3, zero), padding=0_2", True),  # moved, and given out
    ],
)
def test_what_is_gathered_and_not_used(made: str, is_it: bool):
    module = read_module(TEXT.replace("MADE", made), "step")
    view = SimpleNamespace(module=module, context=Context(parameters={1: BIAS}))
    assert is_unused(view, BIAS) is is_it


def test_what_has_no_name_here_is_not_known_to_be_unused():
    module = read_module(TEXT.replace("MADE", "multiply(w1, w1)"), "step")
    view = SimpleNamespace(module=module, context=Context())
    assert not is_unused(view, BIAS)
