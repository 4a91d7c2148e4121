"""A difference in one of two calls of a function is placed at that call."""

from __future__ import annotations

import pytest

from xlagraph.cause.sources import stack
from xlagraph.facts.program.calls_apart import line_apart
from xlagraph.hlo import read_module

TEXT = """HloModule jit_step

FileNames
1 "b.py"
2 "run.py"

FunctionNames
1 "values"
2 "loss"
3 "{third}"

FileLocations
1 {{file_name_id=1 function_name_id=1 line=10 end_line=10 column=4 end_column=9}}
2 {{file_name_id=1 function_name_id=2 line=20 end_line=20 column=4 end_column=9}}
3 {{file_name_id={file} function_name_id=3 line=21 end_line=21 column=4 end_column=9}}

StackFrames
1 {{file_location_id=2 parent_frame_id=1}}
2 {{file_location_id=1 parent_frame_id=2}}
3 {{file_location_id=3 parent_frame_id=3}}
4 {{file_location_id=1 parent_frame_id=4}}

ENTRY main {{
  x = f32[4] parameter(0)
  a = f32[4] cosine(x), metadata={{op_name="a" stack_frame_id=2}}
  b = f32[4] sine(x), metadata={{op_name="b" stack_frame_id=4}}
  ROOT r = (f32[4], f32[4]) tuple(a, b)
}}
"""


@pytest.mark.parametrize(
    ("third", "file", "line"), [("loss", 1, 20), ("replay", 2, None)], ids=["called twice", "else"]
)
def test_the_call_that_differs(third, file, line):
    module = read_module(TEXT.format(third=third, file=file))
    a = module.names.index("a")
    shared = stack(module, a)[0]
    assert shared.line == 10
    found = line_apart(module, [a], [a], shared)
    assert (found and found.line) == line
