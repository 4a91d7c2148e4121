"""A batch of numbers that an embedding looks up is no list of indices that somebody picks with."""

from __future__ import annotations

import pytest

from xlagraph.explain import explain_modules
from xlagraph.hlo import read_module


def looked_up(rows: int, file: str, function: str) -> str:
    """Rows of a table by numbers that come in, at a line of this function."""
    return f"""HloModule step

FileNames
1 "train.py"
2 "{file}"

FunctionNames
1 "train"
2 "{function}"

FileLocations
1 {{file_name_id=1 function_name_id=1 line=10 end_line=10 column=4 end_column=9}}
2 {{file_name_id=2 function_name_id=2 line=20 end_line=20 column=4 end_column=9}}

StackFrames
1 {{file_location_id=1 parent_frame_id=1}}
2 {{file_location_id=2 parent_frame_id=2}}

ENTRY e {{
  table = f32[50,8] parameter(0)
  numbers = s64[{rows}] parameter(1)
  found = f32[{rows},8] gather(table, numbers), offset_dims={{1}}, collapsed_slice_dims={{0}}, start_index_map={{0}}, index_vector_dim=1, slice_sizes={{1,8}}, metadata={{op_type="aten__index_select" stack_frame_id=2}}
  ROOT r = (f32[{rows},8]) tuple(found)
}}
"""  # noqa: E501


@pytest.mark.parametrize(
    ("file", "function", "what"),
    [
        ("site-packages/torch/nn/functional.py", "embedding", "an input has another shape"),
        ("model.py", "embedding", "the number of indices changes from step to step"),
        ("model.py", "pick", "the number of indices changes from step to step"),
    ],
)
def test_what_is_looked_up_by_an_embedding_is_a_batch(file, function, what):
    a, b = (read_module(looked_up(rows, file, function), "m") for rows in (32, 12))
    found = explain_modules(a, b)
    assert found.proved
    assert str(found.causes[0].in_short).lower().partition(": ")[0] == what
