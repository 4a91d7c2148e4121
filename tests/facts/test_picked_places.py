"""An argmax and an argmin, told by the reduction of values with their places."""

from __future__ import annotations

import pytest

from xlagraph.facts.values.notation import picked_by, told_as
from xlagraph.facts.values.telling import telling_opcodes
from xlagraph.hlo import read_module

TEXT = """HloModule m

pick {
  p = f32[] parameter(0)
  k = s32[] parameter(1)
  q = f32[] parameter(2)
  n = s32[] parameter(3)
  wins = pred[] compare(p, q), direction=GE
  value = f32[] select(wins, p, q)
  alike = pred[] compare(p, q), direction=EQ
  first = s32[] minimum(k, n)
  winner = s32[] select(wins, k, n)
  place = s32[] select(alike, first, winner)
  ROOT r = (f32[], s32[]) tuple(value, place)
}

ENTRY e {
  x = f32[6,14] parameter(0)
  other = s32[6,14] parameter(1)
  places = s32[6,14] iota(), iota_dimension=1
  low = f32[] constant(-inf)
  zero = s32[] constant(0)
  both = (f32[6], s32[6]) reduce(x, places, low, zero), dimensions={1}, to_apply=pick
  ROOT out = s32[6] get-tuple-element(both), index=1
}
"""


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("", "", "max"),
        ("direction=GE", "direction=LT", "min"),
        ("compare(p, q), direction=GE", "compare(q, p), direction=GE", "min"),
        ("select(wins, p, q)", "select(wins, q, p)", "min"),
        ("reduce(x, places,", "reduce(x, other,", ""),
        ("iota_dimension=1", "iota_dimension=0", ""),
        ("f32[] select(wins, p, q)", "f32[] add(p, q)", ""),
    ],
)
def test_which_place_is_picked(old, new, said):
    module = read_module(TEXT.replace(old, new), "m")
    (both,) = (i for i in range(len(module)) if module.opcodes[i] == "reduce")
    assert picked_by(module, both) == said
    piece = [both, module.users[both][0]]
    assert told_as(module, piece[1]) == (f"arg{said}" if said else "get-tuple-element")
    assert ("select" in telling_opcodes(module, piece)) is not bool(said)
