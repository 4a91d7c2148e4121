"""An array that one graph takes in and the other has baked in, and what only looks like that."""

from __future__ import annotations

import pytest

from xlagraph.cause.model import Context
from xlagraph.explain import explain_modules
from xlagraph.hlo import read_module
from xlagraph.tensors import Tensor

TAKEN = """HloModule step

ENTRY main {
  x = f32[2,4,3] parameter(0)
  table = f32[4,3] parameter(1)
  row = f32[1,4,3] reshape(table)
  rows = f32[2,4,3] broadcast(row), dimensions={0,1,2}
  y = f32[2,4,3] add(x, rows)
  ROOT r = f32[2,4,3] tanh(y)
}
"""
TABLE = "  table = f32[4,3] parameter(1)\n  row = f32[1,4,3] reshape(table)\n"
ELIDED = TAKEN.replace(TABLE, "  row = f32[1,4,3] constant({...})\n")
WRITTEN = TAKEN.replace(TABLE, "  row = f32[1,4,3] constant({{{1,2,3},{4,5,6},{7,8,9},{0,1,2}}})\n")
ZEROS = TAKEN.replace(
    TABLE, "  zero = f32[] constant(0)\n  row = f32[1,4,3] broadcast(zero), dimensions={}\n"
)
SMALLER = TAKEN.replace(
    TABLE,
    "  some = f32[1,3] constant({{1,2,3}})\n  row = f32[1,4,3] broadcast(some), dimensions={0,2}\n",
)


def explained(first: str, second: str, **contexts: Context):
    return explain_modules(read_module(first, "a"), read_module(second, "b"), **contexts)


@pytest.mark.parametrize("baked", [ELIDED, WRITTEN])
def test_an_array_is_an_argument_on_one_side_and_a_constant_on_the_other(baked):
    for pair in ((TAKEN, baked), (baked, TAKEN)):
        explanation = explained(*pair)
        (cause,) = explanation.causes
        assert explanation.proved
        assert cause.kind.id == "static-argument"
        assert "input 1 (f32[4,3])" in str(cause.title)
        assert str(cause.in_short) == "An array is baked into one graph only"
        assert str(cause.fix_in_short) == "Pass the array as an argument in every step."


@pytest.mark.parametrize("baked", [ZEROS, SMALLER])
def test_what_is_spread_from_fewer_numbers_is_another_array(baked):
    causes = explained(TAKEN, baked).causes
    assert "static-argument" not in {cause.kind.id for cause in causes}


def kept(text: str, value: str) -> str:
    """The same with a value given back, too."""
    return text.replace("ROOT r =", "t =").replace(
        "\n}", f"\n  ROOT r = (f32[2,4,3], f32[1,4,3]) tuple(t, {value})\n}}"
    )


def test_a_state_in_its_first_step_is_no_argument():
    """The table is updated: the constant is its first value."""
    updated = "  one = f32[1,4,3] sine(row)\n  next = f32[1,4,3] add(row, one)\n"
    table = TABLE.replace("  row", "  more").replace("f32[4,3] p", "f32[1,4,3] p")
    whole = TAKEN.replace(
        TABLE, table.replace("more = f32[1,4,3] reshape", "row = f32[1,4,3] copy")
    )
    first, second = (
        kept(text.replace("  y =", f"{updated}  y ="), "next") for text in (WRITTEN, whole)
    )
    kinds = {cause.kind.id for cause in explained(first, second).causes}
    assert "static-argument" not in kinds


def test_a_tensor_with_a_name_may_have_its_first_value_there():
    direct = TAKEN.replace(TABLE, "  row = f32[1,4,3] parameter(1)\n")
    names = Context(parameters={1: Tensor("", "mask")})
    (cause,) = explained(WRITTEN, direct, context_b=names).causes
    assert cause.kind.id == "initial-state"
    (cause,) = explained(WRITTEN, direct).causes
    assert cause.kind.id == "static-argument"
