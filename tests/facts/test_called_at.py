"""Where a piece is called from: the lines of what it computes, not those that made its inputs."""

from __future__ import annotations

import pytest

from xlagraph.cause.sources import called_at, called_within
from xlagraph.hlo import read_module
from xlagraph.message import SourceLine

MODULE = """HloModule step

FileNames
1 "train.py"

FunctionNames
1 "forward"
2 "train"
3 "<module>"

FileLocations
1 {file_name_id=1 function_name_id=3 line=40 end_line=40 column=0 end_column=0}
2 {file_name_id=1 function_name_id=2 line=21 end_line=21 column=0 end_column=0}
3 {file_name_id=1 function_name_id=2 line=25 end_line=25 column=0 end_column=0}
4 {file_name_id=1 function_name_id=1 line=11 end_line=11 column=0 end_column=0}
5 {file_name_id=1 function_name_id=1 line=12 end_line=12 column=0 end_column=0}

StackFrames
1 {file_location_id=1 parent_frame_id=1}
2 {file_location_id=2 parent_frame_id=2}
3 {file_location_id=3 parent_frame_id=2}
4 {file_location_id=4 parent_frame_id=4}
5 {file_location_id=5 parent_frame_id=4}

ENTRY main {
  w = f32[4] parameter(0), metadata={op_name="xla__device_data" stack_frame_id=2}
  s = f32[4] sine(w), metadata={op_name="sin" stack_frame_id=4}
  c = f32[4] cosine(s), metadata={op_name="cos" stack_frame_id=5}
  m = f32[4] multiply(c, c), metadata={op_name="mul" stack_frame_id=2}
  ROOT r = (f32[4]) tuple(m)
}
"""
MAIN = SourceLine("train.py", 40, "<module>")
UPLOAD = SourceLine("train.py", 21, "train")
CALL = SourceLine("train.py", 25, "train")
W, S, C, M = range(4)


@pytest.mark.parametrize(
    ("piece", "line"),
    [((W, S), 11), ((W, S, C), 25), ((W, S, M), 40), ((W,), 21)],
    ids=["one line", "two lines of a function", "computed at both", "an input alone"],
)
def test_where_inputs_were_made_counts_only_where_nothing_is_computed(piece, line):
    module = read_module(MODULE, "a")
    assert [one.line for one in called_at(module, piece)] == [line]


def test_where_inputs_were_made_is_not_within_a_call():
    module = read_module(MODULE, "a")
    assert called_within(module, (W, S, C), MAIN) == CALL
    assert called_within(module, (W,), MAIN) == UPLOAD
