"""Weights that lose their annotation, as where new data is put into them."""

from __future__ import annotations

import pytest

from xlagraph.cause.model import Context
from xlagraph.explain import explain_modules
from xlagraph.hlo import read_module
from xlagraph.tensors import Role, Tensor

SHARDED = "{devices=[2,1]0,1}"
TURNED = "{devices=[1,2]0,1}"
TEXT = """HloModule step

ENTRY main {
  w = f32[4,4] parameter(0), sharding=W
  x = f32[4,4] parameter(1), sharding=X
  g = f32[4,4] dot(x, w), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  s = f32[4,4] tanh(g)
  ROOT r = (f32[4,4]) tuple(s)
}
"""
KNOWN = Context(parameters={0: Tensor("", "head.weight", Role.PARAMETER)})


def cause_of(w: tuple[str, str], x: tuple[str, str]):
    texts = (TEXT.replace("=W", f"={a}").replace("=X", f"={b}") for a, b in zip(w, x, strict=True))
    a, b = map(read_module, texts)
    (cause,) = explain_modules(a, b, KNOWN, KNOWN).causes
    assert (str(cause.kind), cause.proved) == ("sharding", True)
    return cause


def test_a_weight_that_loses_its_sharding_gets_it_again_where_it_is_replaced():
    cause = cause_of((SHARDED, "{replicated}"), (SHARDED, SHARDED))
    assert str(cause.title).startswith("1 tensor of the model no longer sharded: head.weight ")
    assert str(cause.fix_in_short) == "Call xs.mark_sharding again where the weight is replaced."


@pytest.mark.parametrize(
    ("w", "x"),
    [
        ((SHARDED, TURNED), (SHARDED, SHARDED)),
        (("{replicated}", SHARDED), (SHARDED, SHARDED)),
        ((SHARDED, SHARDED), (SHARDED, "{replicated}")),
        ((SHARDED, "{replicated}"), (SHARDED, "{replicated}")),
    ],
    ids=["another one", "gets one", "data", "weights and data"],
)
def test_other_shardings_are_told_as_before(w, x):
    cause = cause_of(w, x)
    assert "sharded in another way" in str(cause.title)
    assert "mark_sharding again" not in str(cause.fix_in_short)


LISTED = """HloModule step

ENTRY main {
  w = f32[4,4] parameter(0), sharding=W
  x = f32[4,4] parameter(1), sharding={replicated}
  g = f32[4,4] dot(x, w), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  s = f32[4,4] tanh(g)
  t = f32[4,4] custom-call(s), custom_call_target="xla.sdy.FuncResultSharding", sharding=W
  ROOT r = (f32[4,4], f32[4,4]) tuple(t, g), sharding={W, /*index=1*/G}
}
"""


@pytest.mark.parametrize(("other", "proved"), [("{replicated}", True), (TURNED, False)])
def test_the_tuple_of_outputs_lists_the_shardings_of_those_that_are_told_of(other, proved):
    texts = (
        LISTED.replace("W", w).replace("G}", f"{g}}}")
        for w, g in (("{replicated}", "{replicated}"), (SHARDED, other))
    )
    explanation = explain_modules(*map(read_module, texts))
    assert "sharding" in [str(cause.kind) for cause in explanation.causes]
    assert explanation.proved == proved
