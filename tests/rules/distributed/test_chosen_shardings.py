"""Tensors that both sides divide over devices are told before those that one side leaves whole."""

from __future__ import annotations

from xlagraph.explain import explain_modules
from xlagraph.hlo import read_module

STEP = """\
HloModule step, num_partitions=2
ENTRY main {{
  v = f32[4] parameter(0), sharding={v}
  w = f32[4,4] parameter(1), sharding={w}
  y = f32[4] dot(w, v), lhs_contracting_dims={{1}}, rhs_contracting_dims={{0}}
  n = f32[4] subtract(v, y)
  ROOT out = (f32[4], f32[4]) tuple(y, n)
}}
"""
WHOLE, ROWS, COLUMNS = "{replicated}", "{devices=[2,1]0,1}", "{devices=[1,2]0,1}"
PARTS = "{devices=[2]0,1}"


def said(*sides: tuple[str, str]) -> tuple[str, str]:
    found = explain_modules(*(read_module(STEP.format(v=v, w=w)) for v, w in sides))
    assert found.proved
    (cause,) = found.causes
    return str(cause.in_short), str(cause.title)


def test_what_both_divide_is_told_first():
    short, title = said((WHOLE, COLUMNS), (PARTS, ROWS))
    assert short == f"Tensors are sharded in another way: {COLUMNS} became {ROWS}"
    assert title.startswith("1 tensor sharded in another way: input 1 (f32[4,4])")
    assert "; 1 more is whole on one side and divided on the other" in title


def test_where_one_side_leaves_all_whole_all_are_told_alike():
    short, title = said((WHOLE, WHOLE), (PARTS, ROWS))
    assert short == "Tensors are sharded in another way"
    assert title.startswith("2 tensors sharded in another way: ")
