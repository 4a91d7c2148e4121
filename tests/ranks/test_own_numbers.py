"""Graphs of ranks that differ only by the rank's own number."""

from __future__ import annotations

from xlagraph.hlo import read_module
from xlagraph.ranks import index
from xlagraph.ranks.index import differing, own_numbers

TEXT = """HloModule m

ENTRY main {{
  p = f32[64] parameter(0)
  s = f32[8] slice(p), slice={{[{start}:{stop}]}}
  c = f32[] constant({value})
  b = f32[8] broadcast(c), dimensions={{}}
  ROOT r = f32[8] {opcode}(s, b)
}}
"""


def module(start=0, stop=8, value="1", opcode="add"):
    return read_module(TEXT.format(start=start, stop=stop, value=value, opcode=opcode))


def compared(rows):
    """What differs between the modules of ranks, as numbers of theirs."""
    (lowest, first), *others = rows
    found = {rank: differing(first, other) for rank, other in others}
    return own_numbers(lowest, found) if all(found.values()) else None


def test_slices_that_move_with_the_rank():
    found = compared((k, module(8 * k, 8 * k + 8)) for k in range(5))
    assert (found.first, found.step, len(found.instructions)) == (0, 8, 1)


def test_a_constant_that_is_a_multiple_of_the_rank():
    found = compared((k, module(value=f"{0.5 * k + 3}")) for k in (0, 1, 3, 7))
    assert (found.first, found.step) == (3, 0.5)


def test_two_places_each_with_a_line_of_its_own():
    found = compared((k, module(8 * k, 8 * k + 8, str(k))) for k in range(4))
    assert len(found.instructions) == 2


def test_what_does_not_grow_evenly_is_something_else():
    values = ["1", "2", "9", "4"]
    assert compared((k, module(value=value)) for k, value in enumerate(values)) is None


def test_another_graph_is_something_else():
    rows = [module(value="0"), module(value="1"), module(value="2", opcode="multiply")]
    assert compared(enumerate(rows)) is None


def test_no_more_text_is_kept_than_numbers_need(monkeypatch):
    one, other = module(value="1"), module(value="2")
    assert differing(one, other).places == (2,)
    monkeypatch.setattr(index, "MAX_TEXT", 5)
    assert differing(one, other) is None


def test_two_ranks_are_too_few_to_say():
    assert compared((k, module(value=str(k))) for k in range(2)) is None


def test_equal_modules_have_none():
    assert compared((k, module()) for k in range(4)) is None
