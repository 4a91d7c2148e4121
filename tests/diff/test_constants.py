"""Constants pair off by their users."""

from __future__ import annotations

from xlagraph.diff import diff_modules
from xlagraph.hlo import read_module

TEXT = """HloModule m

ENTRY e {{
  p = f32[8] parameter(0)
  c = f32[] constant({number})
  w = f32[8] broadcast(c), dimensions={{}}
  v = f32[8] {opcode}(p, w)
  ROOT t = (f32[8]) tuple(v)
}}
"""


def difference(number, opcode):
    a = read_module(TEXT.format(number=4, opcode="divide"), "a")
    return diff_modules(a, read_module(TEXT.format(number=number, opcode=opcode), "b"))


def test_numbers_of_steps_that_have_no_counterpart_are_no_pair():
    diff = difference(0.25, "multiply")
    assert not diff.changes
    assert [diff.a.names[x] for x in diff.removed] == ["c", "w", "v"]
    assert [diff.b.names[y] for y in diff.added] == ["c", "w", "v"]


def test_a_number_of_the_same_step_is_a_pair():
    diff = difference(0.25, "divide")
    (change,) = diff.changes
    assert (diff.a.names[change.a], change.fields) == ("c", ("payload",))
