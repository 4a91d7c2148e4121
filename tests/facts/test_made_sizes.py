"""As many elements, divided in another way: groups of a normalisation, heads, or just parts."""

from __future__ import annotations

import pytest

from xlagraph.explain import explain_modules
from xlagraph.hlo import read_module

NORM = """HloModule norm

ENTRY main {{
  x = f32[6,16,4,4] parameter(0)
  r = f32[1,{rows},{each}] reshape(x)
  zero = f32[] constant(0)
  zeros = f32[{rows}] broadcast(zero), dimensions={{}}
  n = (f32[1,{rows},{each}], f32[{rows}], f32[{rows}]) batch-norm-training(
    r, zeros, zeros), epsilon=1e-05, feature_index=1
  v = f32[1,{rows},{each}] get-tuple-element(n), index=0
  ROOT y = f32[6,16,4,4] reshape(v)
}}
"""
HEADS = """HloModule heads

ENTRY main {{
  x = f32[6,16,16] parameter(0)
  z = f32[6,16,16] parameter(1)
  t = f32[6,16,16] tanh(x)
  u = f32[6,16,16] tanh(z)
  q = f32[6,16,{n},{each}] reshape(t)
  k = f32[6,16,{n},{each}] reshape(u)
  s = f32[6,{n},16,16] dot(q, k),
    lhs_batch_dims={{0,2}}, lhs_contracting_dims={{{axis}}},
    rhs_batch_dims={{0,2}}, rhs_contracting_dims={{{axis}}}
  e = f32[6,{n},16,16] exponential(s)
  p = f32[6,{n},16,{each}] dot(e, k),
    lhs_batch_dims={{0,1}}, lhs_contracting_dims={{3}},
    rhs_batch_dims={{0,2}}, rhs_contracting_dims={{1}}
  o = f32[6,16,{n},{each}] transpose(p), dimensions={{0,2,1,3}}
  ROOT y = f32[6,16,16] reshape(o)
}}
"""
PARTS = """HloModule parts

ENTRY main {{
  x = f32[6,16,16] parameter(0)
  t = f32[6,16,16] tanh(x)
  q = f32[6,{n},{each},16] reshape(t)
  e = f32[6,{n},{each},16] exponential(q)
  f = f32[6,{n},{each},16] reverse(e), dimensions={{2}}
  ROOT y = f32[6,16,16] reshape(f)
}}
"""


def norm(rows: int) -> str:
    return NORM.format(rows=rows, each=6 * 16 * 16 // rows)


def heads(number: int) -> str:
    return HEADS.format(n=number, each=16 // number, axis=3)


def parts(number: int) -> str:
    return PARTS.format(n=number, each=16 // number)


@pytest.mark.parametrize(
    ("old", "new", "told"),
    [
        (norm(24), norm(48), "A normalisation's number of groups: 4 became 8."),
        (norm(96), norm(6), "A normalisation's number of values taken together: 16 became 256."),
        (heads(2), heads(4), "The number of heads of an attention: 2 became 4."),
        (parts(2), parts(4), "Values are divided into other groups: f32[6,2,8,16] became"),
    ],
)
def test_what_the_parts_are_is_told_by_what_uses_them(old, new, told):
    explanation = explain_modules(read_module(old), read_module(new))
    assert explanation.proved
    assert str(explanation.verdict.what).startswith(told)
    assert "option of the layer" in str(explanation.verdict.fix)


def test_a_size_that_python_makes_is_no_division():
    text = "HloModule m\n\nENTRY main {{\n  o = f32[] constant(2)\n"
    text += "  x = f32[] parameter(0)\n  y = f32[] add(x, o)\n"
    text += "  r = f32[{0}] broadcast(y), dimensions={{}}\n  ROOT s = f32[{0}] tanh(r)\n}}\n"
    explanation = explain_modules(read_module(text.format(4)), read_module(text.format(6)))
    assert "made in the step changed size" in str(explanation.verdict.what)


PICKED = """HloModule picked

ENTRY main {{
  x = f32[8,4] parameter(0)
  k = s64[{sizes}] parameter(1)
  row = f32[{rows}4] gather(x, k), offset_dims={{{offset}}}, collapsed_slice_dims={{0}},
    start_index_map={{0}}, index_vector_dim={vector}, slice_sizes={{1,4}}
  ROOT y = f32[{rows}4] exponential(row)
}}
"""


def test_one_number_that_picks_a_row_is_no_list():
    one = PICKED.format(sizes="", rows="", offset="0", vector="0")
    some = PICKED.format(sizes="3", rows="3,", offset="1", vector="1")
    found = explain_modules(read_module(one), read_module(some))
    assert not found.same
    assert found.causes
