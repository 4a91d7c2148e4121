"""Where it begins what no cause explains."""

from __future__ import annotations

import pytest

from xlagraph.cause.model import Context
from xlagraph.cause.verdict import NOWHERE
from xlagraph.diff import diff_modules
from xlagraph.explain.places import place_left
from xlagraph.hlo import read_module
from xlagraph.message import SourceLine

TEXT = """HloModule step

FileNames
1 "train.py"

FunctionNames
1 "step"
2 "augment"
3 "flip"
4 "noise"
5 "main"

FileLocations
1 {file_name_id=1 function_name_id=5 line=40 end_line=40 column=0 end_column=0}
2 {file_name_id=1 function_name_id=1 line=30 end_line=30 column=0 end_column=0}
3 {file_name_id=1 function_name_id=2 line=20 end_line=20 column=0 end_column=0}
4 {file_name_id=1 function_name_id=3 line=10 end_line=10 column=0 end_column=0}
5 {file_name_id=1 function_name_id=4 line=12 end_line=12 column=0 end_column=0}
6 {file_name_id=1 function_name_id=1 line=31 end_line=31 column=0 end_column=0}

StackFrames
1 {file_location_id=1 parent_frame_id=1}
2 {file_location_id=2 parent_frame_id=2}
3 {file_location_id=3 parent_frame_id=3}
4 {file_location_id=4 parent_frame_id=4}
5 {file_location_id=5 parent_frame_id=4}
6 {file_location_id=6 parent_frame_id=2}

ENTRY main {
  x = f32[8] parameter(0)
  flipped = f32[8] reverse(x), dimensions={0}, metadata={stack_frame_id=4}
  noisy = f32[8] sine(flipped), metadata={stack_frame_id=5}
  scaled = f32[8] tanh(noisy), metadata={stack_frame_id=6}
  ROOT r = f32[8] exponential(scaled)
}
"""
STEP = SourceLine("train.py", 33, "step")


@pytest.mark.parametrize(
    ("names", "site", "line"),
    [
        (("flipped", "noisy"), STEP, 20),
        (("noisy",), STEP, 12),
        (("flipped", "noisy", "scaled"), SourceLine("train.py", 41, "main"), 40),
        (("flipped", "noisy", "scaled"), STEP, 10),
    ],
    ids=["one call of both", "its own", "called by the loop", "all of the step"],
)
def test_the_line_that_called_all_that_is_left(names, site, line):
    diff = diff_modules(read_module(TEXT, "a"), read_module(TEXT, "b"))
    members = [k for k, name in enumerate(diff.b.names) if name in names]
    place = place_left(diff, (), members, (Context(), Context(call_site=site)))
    assert place.line is not None
    assert place.line.line == line
    assert place.stack[0].line == line


def test_what_has_no_line_begins_nowhere():
    diff = diff_modules(read_module(TEXT, "a"), read_module(TEXT, "b"))
    root = diff.b.names.index("r")
    assert place_left(diff, (), (root,), (Context(), Context())) is NOWHERE
    assert place_left(diff, (), (), (Context(), Context())) is NOWHERE
