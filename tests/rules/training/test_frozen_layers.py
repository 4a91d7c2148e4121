"""A layer that one side trains and the other hands on as it came, and what only looks like that."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest

from xlagraph.cause.model import Explanation
from xlagraph.explain import explain_modules
from xlagraph.hlo import read_module

PAIRS = Path(__file__).resolve().parents[3] / "fixtures" / "module_pairs"
STEP = """HloModule step

ENTRY main {
  x = f32[4,8] parameter(0)
  w = f32[8,8] parameter(1)
  v = f32[8,8] parameter(2)
  rate = f32[] parameter(3)
  rates = f32[8,8] broadcast(rate), dimensions={}
  h = f32[4,8] dot(x, w), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  t = f32[4,8] tanh(h)
  y = f32[4,8] dot(t, v), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  e = f32[4,8] sine(y)
  gv = f32[8,8] dot(t, e), lhs_contracting_dims={0}, rhs_contracting_dims={0}
  dv = f32[8,8] multiply(rates, gv)
  nv = f32[8,8] subtract(v, dv)
  b = f32[4,8] dot(e, v), lhs_contracting_dims={1}, rhs_contracting_dims={1}
  gw = f32[8,8] dot(x, b), lhs_contracting_dims={0}, rhs_contracting_dims={0}
  dw = f32[8,8] multiply(rates, gw)
  nw = f32[8,8] subtract(w, dw)
  ROOT r = (f32[4,8], f32[8,8], f32[8,8]) tuple(y, nw, nv)
}
"""


SOME = ("some steps", "one version")
"""Functions of two names are two versions."""


def both_ways(a: str, b: str) -> list[Explanation]:
    first, second = read_module(a, "a"), read_module(b, "b")
    assert a != b
    found = [explain_modules(first, second), explain_modules(second, first)]
    assert all(one.proved for one in found)
    return found


@pytest.mark.parametrize("name", ["layer_frozen", "one_matrix_frozen"])
def test_a_frozen_layer_is_one_cause_in_both_directions(name):
    texts = [gzip.decompress((PAIRS / f"{name}.{s}.hlo.gz").read_bytes()).decode() for s in "ab"]
    for explanation in both_ways(*texts):
        (cause,) = explanation.causes
        assert cause.kind.id == "newly-updated"
        short = str(cause.in_short)
        assert short in {f"Parameters are trained in {one} only" for one in SOME}
        assert "requires_grad" in str(cause.fix)
        assert "requires_grad" in str(cause.fix_in_short)


def test_its_momentum_belongs_to_it_and_what_else_is_kept_does_not():
    more = STEP.replace("f32[8,8]) tuple(y, nw, nv)", "f32[8,8], f32[8,8]) tuple(y, nw, nv, gw)")
    less = STEP.replace("tuple(y, nw, nv)", "tuple(y, w, nv)")
    for explanation in both_ways(more, less):
        (cause,) = explanation.causes
        assert "updates 1 tensor that" in str(cause.title)
        assert "gives out 1 more tensor of theirs" in str(cause.title)
    logged = more.replace("nv, gw)", "nv, t)").replace(
        "f32[8,8], f32[8,8]) t", "f32[8,8], f32[4,8]) t"
    )
    for explanation in both_ways(logged, less):
        kinds = {cause.kind.id for cause in explanation.causes}
        assert kinds == {"newly-updated", "live-tensor"}


def test_a_term_of_the_update_is_still_an_option():
    decay = "  d = f32[8,8] multiply(rates, w)\n  gd = f32[8,8] add(gw, d)\n  dw = "
    with_decay = STEP.replace("  dw = ", decay).replace("(rates, gw)", "(rates, gd)")
    for explanation in both_ways(STEP, with_decay):
        assert [cause.kind.id for cause in explanation.causes] == ["optimizer-option"]


def test_what_is_given_back_in_place_of_another_value_is_no_frozen_tensor():
    """The output is no new value of the input: it is not computed from it element by element."""
    product = STEP.replace("nw = f32[8,8] subtract(w, dw)", "nw = f32[8,8] tanh(dw)")
    for explanation in both_ways(product, product.replace("tuple(y, nw, nv)", "tuple(y, w, nv)")):
        assert "newly-updated" not in {cause.kind.id for cause in explanation.causes}


def test_an_average_that_is_left_out_is_updated_and_not_trained():
    more = STEP.replace("nw = f32[8,8] subtract(w, dw)", "nw = f32[8,8] add(w, nv)")
    for explanation in both_ways(more, more.replace("tuple(y, nw, nv)", "tuple(y, w, nv)")):
        (cause,) = explanation.causes
        assert str(cause.in_short) == "Tensors are updated in some steps only"
        assert "requires_grad" not in str(cause.fix_in_short)


def test_gradients_that_live_on_belong_to_a_layer_whose_buffer_is_given_away():
    """A gradient has the shape of its layer, too: what is computed of the layer is new."""
    frozen = STEP.replace("step\n", "step, buffer_donor={ (2, {}) }\n", 1).replace(
        "f32[8,8], f32[8,8]) tuple(y, nw, nv)", "f32[8,8]) tuple(y, nv)"
    )
    trained = STEP.replace("step\n", "step, buffer_donor={ (1, {}), (2, {}) }\n", 1).replace(
        "f32[8,8]) tuple(y, nw, nv)", "f32[8,8], f32[8,8]) tuple(y, nv, gw, nw)"
    )
    for explanation in both_ways(frozen, trained):
        (cause,) = explanation.causes
        assert str(cause.in_short) == "Parameters are trained in some steps only"
        assert "gives out 1 more tensor of theirs" in str(cause.title)
