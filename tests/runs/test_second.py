"""A second cause in the graphs of the first one: only what has numbers of its own is one."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
from written_runs import write

from xlagraph.message import Change, say
from xlagraph.runs.second import _ways

END = 20
LIST = 'metadata={op_type="aten__cat" source_file="train.py" source_line=12}'
WARPED = 'metadata={op_type="xla__device_data" source_file="train.py" source_line=5}'
USED = 'metadata={op_type="aten__sin" source_file="train.py" source_line=5}'


def step(number, length):
    """The largest of a list of so many numbers, and of what a line makes of another length."""
    parts = ", ".join(f"f32[1]{{0}} %r{k}" for k in range(number))
    inputs = "".join(
        f"  %p{k} = f32[] parameter({k + 1})\n  %r{k} = f32[1]{{0}} reshape(f32[] %p{k}), {LIST}\n"
        for k in range(number)
    )
    types = ", ".join(f"p{k}: f32[]" for k in range(number))
    return f"""HloModule step

%most (x: f32[], y: f32[]) -> f32[] {{
  %x = f32[] parameter(0)
  %y = f32[] parameter(1)
  ROOT %m = f32[] maximum(f32[] %x, f32[] %y)
}}

ENTRY %main (w: f32[{length}], {types}) -> (f32[], f32[]) {{
  %w = f32[{length}]{{0}} parameter(0), {WARPED}
{inputs}  %least = f32[] constant(0)
  %v = f32[{number}]{{0}} concatenate({parts}), dimensions={{0}}, {LIST}
  %o = f32[] reduce(f32[{number}]{{0}} %v, f32[] %least), dimensions={{0}}, to_apply=%most, {LIST}
  %s = f32[{length}]{{0}} sine(f32[{length}]{{0}} %w), {USED}
  %q = f32[] reduce(f32[{length}]{{0}} %s, f32[] %least), dimensions={{0}}, to_apply=%most, {USED}
  ROOT %t = (f32[], f32[]) tuple(f32[] %o, f32[] %q)
}}
"""


def problem(folder, lengths):
    """Of steps with a list that has a number more each time, and these lengths."""
    run = write(folder, [(END, step(2 + k, length)) for k, length in enumerate(lengths)])
    (found,) = run.problems
    assert (found.kind.id, found.place.line.line) == ("growing-graph", 12)
    return run, found


def test_a_second_cause_has_its_line_and_its_fix(tmp_path):
    run, found = problem(tmp_path, (50, 57, 41, 48, 44, 59, 61, 52))
    (second,) = found.second
    assert (second.kind.id, second.place.line.line) == ("input-shape", 5)
    assert (found.further, found.frequent) == ((second,), ())
    said = str(run.verdict)
    assert "A second cause in the same graphs: an input has another shape at train.py:5. " in said
    assert said.endswith("Fix: Pad to one size that all fit in, or a few.")


@pytest.mark.parametrize(
    "lengths",
    [
        (50, 51, 52, 53, 54, 55, 56, 57),
        (50, 53, 57, 58, 62, 70, 71, 79),
        (90, 80, 70, 60, 50, 40, 30, 20),
        (50, 57, 55, 60, 61, 65, 66, 68),
        (50, 50, 50, 50, 50, 50, 57, 41),
    ],
    ids=["as the first", "more by more", "what is left", "once the other way", "in few graphs"],
)
def test_what_follows_the_first_is_no_second_cause(tmp_path, lengths):
    run, found = problem(tmp_path, lengths)
    assert found.second == ()
    assert "A second cause" not in str(run.verdict)


def changes(*numbers):
    """A cause that tells of these numbers, each as it was and as it is."""
    parts = (Change(str(old), str(new)) for old, new in numbers)
    return SimpleNamespace(title=say("sizes: ", *(part for one in parts for part in (one, ", "))))


@pytest.mark.parametrize(
    ("second", "ways"),
    [
        ((1.5, 1.7), {1, -1}),
        ((7, 5), set()),
        ((0.2, 0.1), set()),
        ((9, 8), {1, -1}),
    ],
    ids=["an exponent", "one of them", "a part of one", "another number"],
)
def test_what_is_none_of_sizes_that_go_both_ways_follows_none(second, ways):
    """A mean of each part of a split is divided by one of its sizes."""
    assert _ways(changes((5, 10), (7, 5)), changes(second)) == ways


def test_a_number_goes_with_or_against_a_size():
    assert _ways(changes((5, 10)), changes((0.2, 0.1))) == {-1}
    assert _ways(changes((5, 10)), changes((3, 4))) == {1}
    assert _ways(changes(), changes((3, 4))) == {0}
