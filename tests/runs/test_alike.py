"""One number that is baked in at several lines is one cause; another number is another one."""

from __future__ import annotations

import pytest
from written_runs import write

END = 20


def step(first, second):
    """Two tables, each taken at a place of its own, at two lines of the program."""

    def at(line):
        return f'metadata={{op_type="xla__select" source_file="train.py" source_line={line}}}'

    return f"""HloModule step

ENTRY %main (x: f32[90], y: f32[90]) -> f32[1] {{
  %x = f32[90]{{0}} parameter(0)
  %y = f32[90]{{0}} parameter(1)
  %s = f32[1]{{0}} slice(f32[90]{{0}} %x), slice={{[{first}:{first + 1}]}}, {at(12)}
  %t = f32[1]{{0}} sine(f32[1]{{0}} %s), {at(12)}
  %u = f32[1]{{0}} slice(f32[90]{{0}} %y), slice={{[{second}:{second + 1}]}}, {at(14)}
  %v = f32[1]{{0}} cosine(f32[1]{{0}} %u), {at(14)}
  ROOT %z = f32[1]{{0}} add(f32[1]{{0}} %t, f32[1]{{0}} %v)
}}
"""


def told(folder, places):
    (found,) = write(folder, [(END, step(*pair)) for pair in places]).problems
    assert (found.kind.id, found.proved) == ("python-index", True)
    return found


@pytest.mark.parametrize("apart", [0, 1])
def test_a_loop_index_at_two_lines_is_one_cause(tmp_path, apart):
    found = told(tmp_path, [(k, k + apart) for k in range(3, 9)])
    assert (found.further, found.frequent) == ((), ())
    assert {found.place.line.line, *(line.line for line in found.alike)} == {12, 14}
    assert str(found.same_number).startswith("The number moves alike at line")


@pytest.mark.parametrize(
    "places",
    [
        [(k, 40 - k) for k in range(3, 9)],
        [(k, 3 * k) for k in range(3, 9)],
        [(3, 7), (4, 8), (5, 20), (6, 21), (7, 40)],
    ],
    ids=["down", "faster", "jumps"],
)
def test_an_index_that_moves_otherwise_is_another_one(tmp_path, places):
    found = told(tmp_path, places)
    assert found.alike == ()
    assert len(found.further) == 1
