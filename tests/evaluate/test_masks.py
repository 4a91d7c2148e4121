"""Inputs that are masks, and the ones that stand first in each row of theirs."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from xlagraph.diff import diff_modules
from xlagraph.evaluate import same_values
from xlagraph.evaluate.draws import limited
from xlagraph.evaluate.masks import masks
from xlagraph.explain import explain_modules
from xlagraph.hlo import read_module

STEP = """HloModule m
ENTRY e {{
  x = f32[3,4] parameter(0)
  k = f32[3,4] parameter(1)
  one = f32[] constant(1)
  ones = f32[3,4] broadcast(one), dimensions={{}}
  zero = f32[] constant(0)
  zs = f32[3,4] broadcast(zero), dimensions={{}}
  s = f32[3,4] sine(x)
{lines}
  ROOT t = (f32[3,4]) tuple(r)
}}
"""
WEIGHED = ("m = f32[3,4] multiply(k, s)", "o = f32[3,4] subtract(ones, k)")
WEIGHED += ("n = f32[3,4] multiply(o, x)", "q = f32[3,4] add(m, n)")
PICKED = ("p = pred[3,4] compare(k, zs), direction=GT", "q = f32[3,4] select(p, s, x)")


def step(*lines):
    return read_module(STEP.format(lines="".join(f"  {line}\n" for line in lines)), "m")


def same(a, b):
    return same_values(diff_modules(a, b))


def test_what_is_weighed_by_a_mask_and_by_what_is_left_is_picked_by_it():
    product = "r = f32[3,4] multiply(q, q)"
    found = same(step(*WEIGHED, product), step(*PICKED, product))
    assert found.assumed == ((1, (0.0, 1.0)),)
    assert not found.ones_first


def test_the_first_of_each_row_is_one_where_the_ones_stand_first():
    kept = "f = f32[3,1] slice(q), slice={[0:3], [0:1]}"
    of_x = "f = f32[3,1] slice(s), slice={[0:3], [0:1]}"
    given_out = ("g = f32[3,4] pad(f, zero), padding=0_0x0_3", "r = f32[3,4] add(g, q)")
    a, b = step(*PICKED, kept, *given_out), step(*PICKED, of_x, *given_out)
    found = same(a, b)
    assert found.assumed == ((1, (0.0, 1.0)),)
    assert found.ones_first
    assert not explain_modules(a, b).same, "one edit is told as that"
    last = "f = f32[3,1] slice(s), slice={[0:3], [3:4]}"
    assert not same(a, step(*PICKED, last, *given_out))


@pytest.mark.parametrize(
    "lines",
    [
        ("p = f32[3,4] add(k, s)",),
        ("p = pred[3,4] compare(k, zs), direction=GT", "q = f32[3,4] select(p, k, s)"),
        ("p = pred[3,4] compare(k, zs), direction=GT", "q = f32[3,4] subtract(s, k)"),
        ("p = pred[3,4] compare(k, s), direction=GT",),
        ("q = f32[3,4] multiply(k, s)",),
    ],
    ids=["added", "picked by itself", "a target above 0", "compared with values", "weighs alone"],
)
def test_what_is_no_mask_is_told_apart(lines):
    assert masks(step(*lines, "r = f32[3,4] multiply(s, s)")).known == set()


def test_a_mask_is_known_through_calls_and_loops():
    module = read_module(
        """HloModule m
taken {
  t = f32[3,4] parameter(0)
  i = s32[] parameter(1)
  z = s32[] constant(0)
  d = f32[3,1] dynamic-slice(t, z, i), dynamic_slice_sizes={3,1}
  ROOT h = f32[3] reshape(d)
}
body {
  c = (s32[], f32[3], f32[3,4]) parameter(0)
  i = s32[] get-tuple-element(c), index=0
  one = s32[] constant(1)
  j = s32[] add(i, one)
  a = f32[3] get-tuple-element(c), index=1
  k = f32[3,4] get-tuple-element(c), index=2
  w = f32[3] call(k, i), to_apply=taken
  zero = f32[] constant(0)
  zs = f32[3] broadcast(zero), dimensions={}
  p = pred[3] compare(w, zs), direction=GT
  s = f32[3] sine(a)
  n = f32[3] select(p, s, a)
  ROOT t = (s32[], f32[3], f32[3,4]) tuple(j, n, k)
}
until {
  c = (s32[], f32[3], f32[3,4]) parameter(0)
  i = s32[] get-tuple-element(c), index=0
  four = s32[] constant(4)
  ROOT l = pred[] compare(i, four), direction=LT
}
ENTRY e {
  x = f32[3] parameter(0)
  k = f32[3,4] parameter(1)
  z = s32[] constant(0)
  t = (s32[], f32[3], f32[3,4]) tuple(z, x, k)
  w = (s32[], f32[3], f32[3,4]) while(t), condition=until, body=body
  ROOT r = f32[3] get-tuple-element(w), index=1
}
""",
        "m",
    )
    assert masks(module).known == {1}


@given(st.integers(1, 5), st.integers(0, 99))
def test_where_a_row_has_one_place_it_may_be_0(rows, seed):
    """All would be 1 else, and what a factor of 1 - done hides was never seen."""
    drawn = np.random.default_rng(seed).normal(size=(rows, 1))
    mask = limited(drawn, (0.0, 1.0), ones_first=True)
    assert (mask == limited(drawn, (0.0, 1.0))).all()
    assert not mask.all()


@given(st.integers(1, 5), st.integers(2, 6), st.integers(0, 99))
def test_ones_stand_first_and_there_is_one(rows, columns, seed):
    drawn = np.random.default_rng(seed).normal(size=(rows, columns))
    mask = limited(drawn, (0.0, 1.0), ones_first=True)
    assert set(np.unique(mask)) <= {0.0, 1.0}
    assert (mask[:, 0] == 1).all()
    assert (np.diff(mask, axis=1) <= 0).all()
    plain = limited(drawn, (0.0, 1.0))
    assert (mask.sum(axis=1) == np.maximum(plain.sum(axis=1), 1)).all()


WRAPPED = """HloModule m
where {
  low = pred[5,1] parameter(0)
  up = s32[5,1] parameter(1)
  own = s32[5,1] parameter(2)
  ROOT row = s32[5,1] select(low, ORDER)
}
ENTRY e {
  x = f32[3,4] parameter(0)
  k = s32[5,1] parameter(1)
  n = s32[] constant(3)
  ns = s32[5,1] broadcast(n), dimensions={}
  z = s32[] constant(0)
  zs = s32[5,1] broadcast(z), dimensions={}
  low = pred[5,1] compare(k, zs), direction=LT
  up = s32[5,1] add(k, ns)
  row = s32[5,1] call(low, up, k), to_apply=where
  g = f32[5,4] gather(x, INDEX), ROWS
  s = f32[5,4] sine(g)
  ROOT r = (f32[5,4]) tuple(s)
}
""".replace(
    "ROWS",
    "offset_dims={1}, collapsed_slice_dims={0}, start_index_map={0}, index_vector_dim=1, "
    "slice_sizes={1,4}",
)


def test_rows_may_be_wrapped_by_a_function_as_jax_calls_where():
    def module(order, index):
        return read_module(WRAPPED.replace("ORDER", order).replace("INDEX", index), "m")

    plain = module("up, own", "k")
    assert same(module("up, own", "row"), plain).in_rows
    assert not same(module("own, up", "row"), plain)
