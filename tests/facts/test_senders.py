"""Inputs that a helper sends are told where the step's own function asks for them."""

from __future__ import annotations

import pytest

from xlagraph.cause.model import Context
from xlagraph.explain import explain_modules
from xlagraph.hlo import read_module
from xlagraph.message import SourceLine

TABLES = """FileNames
1 "train.py"

FunctionNames
1 "train"
2 "to_device"
3 "main"

FileLocations
1 {file_name_id=1 function_name_id=1 line=30 end_line=30 column=0 end_column=0}
2 {file_name_id=1 function_name_id=2 line=7 end_line=7 column=0 end_column=0}
3 {file_name_id=1 function_name_id=1 line=31 end_line=31 column=0 end_column=0}

StackFrames
1 {file_location_id=1 parent_frame_id=1}
2 {file_location_id=2 parent_frame_id=2}
3 {file_location_id=3 parent_frame_id=1}
"""
MODULE = """HloModule step

TABLES
ENTRY main {
  x = f32[SIZE] parameter(0), metadata={op_type="xla__device_data" stack_frame_id=2}
  y = f32[4] parameter(1), metadata={op_type="xla__device_data" stack_frame_id=OTHER}
  a = f32[SIZE] tanh(x)
  b = f32[4] sine(y)
  ROOT r = (f32[SIZE], f32[4]) tuple(a, b)
}
"""


@pytest.mark.parametrize(
    ("other", "function", "where"),
    [
        ("2", "train", "train.py:30 in train()"),
        ("3", "train", "train.py:7 in to_device()"),
        ("2", "elsewhere", "train.py:7 in to_device()"),
        ("2", "to_device", "train.py:7 in to_device()"),
    ],
    ids=["sends-both", "sends-one", "not-called-by-the-step", "the-step-itself"],
)
def test_where_an_input_is_asked_for(other, function, where):
    text = MODULE.replace("TABLES", TABLES).replace("OTHER", other)
    a, b = (read_module(text.replace("SIZE", size), size) for size in ("8", "6"))
    context = Context(call_site=SourceLine("train.py", 40, function))
    (cause,) = explain_modules(a, b, context, context).causes
    assert (str(cause.kind), cause.proved) == ("input-shape", True)
    assert str(cause.place.in_short) == where
    is_helper = where.endswith("to_device()") and function == "train"
    assert (", called at train.py:30 in train()" in str(cause.title)) == is_helper


@pytest.mark.parametrize(
    ("text", "where"),
    [
        ("rows = (choice == e).nonzero().squeeze(1)", "train.py:7 in to_device()"),
        ("rows, slot = torch.where((choice[:, 0] == e) & kept)", "train.py:7 in to_device()"),
        ("rows = torch.where(choice == e, x, 0)[kind].to(d)", "train.py:30 in train()"),
        ("rows = torch.tensor(table.where(seen).to_numpy()).to(d)", "train.py:30 in train()"),
        ("kept = flat[choice == e]", "train.py:7 in to_device()"),
        ("return {k: v.to(device) for k, v in tree.items()}", "train.py:30 in train()"),
        ("sent = parts[i if i < n else 0].to(device)", "train.py:30 in train()"),
        ("sent = table[n >> 1].to(device)", "train.py:30 in train()"),
    ],
    ids=[
        "nonzero",
        "where",
        "where of three",
        "where of a table",
        "mask",
        "sends",
        "number",
        "shift",
    ],
)
def test_a_line_that_makes_sizes_of_values_sends_nothing(text, where):
    module = MODULE.replace("TABLES", TABLES).replace("OTHER", "2")
    a, b = (read_module(module.replace("SIZE", size), size) for size in ("8", "6"))
    call_site = SourceLine("train.py", 40, "train")
    context = Context(call_site=call_site, program={"train.py": {7: text}})
    (cause,) = explain_modules(a, b, context, context).causes
    assert (str(cause.kind), cause.proved) == ("input-shape", True)
    assert str(cause.place.in_short) == where


@pytest.mark.parametrize(
    ("library", "where"),
    [
        ("torch/nn/modules/rnn.py", "train.py:7 in to_device()"),
        ("loader.py", "train.py:5 in cell()"),
    ],
    ids=["made by a layer", "sent by a loader"],
)
def test_what_a_layer_makes_for_its_input_is_not_where_that_is_sent(library, where):
    name = f"/site-packages/{library}"
    tables = TABLES.replace('1 "train.py"', f'1 "train.py"\n2 "{name}"')
    tables = tables.replace('3 "main"', '3 "main"\n4 "cell"\n5 "forward"')
    tables = tables.replace(
        "\n\nStackFrames",
        "\n4 {file_name_id=1 function_name_id=4 line=5 end_line=5 column=0 end_column=0}"
        "\n5 {file_name_id=2 function_name_id=5 line=9 end_line=9 column=0 end_column=0}"
        "\n\nStackFrames",
    )
    tables += "4 {file_location_id=4 parent_frame_id=2}\n5 {file_location_id=5 parent_frame_id=5}\n"
    text = MODULE.replace("TABLES", tables).replace("f32[4]", "f32[SIZE]").replace("OTHER", "5")
    a, b = (read_module(text.replace("SIZE", size), size) for size in ("8", "6"))
    (cause,) = explain_modules(a, b).causes
    assert (str(cause.kind), cause.proved) == ("input-shape", True)
    assert str(cause.place.in_short) == where


ROWS = """HloModule step

TABLES
ENTRY main {
  x = f32[9,4] parameter(0), metadata={op_type="xla__device_data" stack_frame_id=2}
  i = s64[SIZE,1] parameter(1), metadata={op_type="xla__device_data" stack_frame_id=2}
  n = s64[SIZE] reshape(i)
  r = f32[SIZE,4] gather(x, n), offset_dims={1}, collapsed_slice_dims={0}, start_index_map={0},
    index_vector_dim=1, slice_sizes={1,4}
  s = f32[9,4] sine(x)
  ROOT t = (f32[SIZE,4], f32[9,4]) tuple(r, s)
}
"""


@pytest.mark.parametrize(
    ("text", "where"),
    [
        ("return edges[:, kept]", "train.py:7 in to_device()"),
        ("return {k: batch[k].to(device) for k in batch}", "train.py:30 in train()"),
        ("return send(batch)", "train.py:30 in train()"),
    ],
    ids=["picks", "sends items", "calls"],
)
def test_the_line_that_picks_by_a_mask_is_the_place(text, where):
    module = ROWS.replace("TABLES", TABLES)
    a, b = (read_module(module.replace("SIZE", size), size) for size in ("8", "6"))
    call_site = SourceLine("train.py", 40, "train")
    context = Context(call_site=call_site, program={"train.py": {7: text}})
    (cause,) = explain_modules(a, b, context, context).causes
    assert (str(cause.kind), cause.proved) == ("input-shape", True)
    assert str(cause.place.in_short) == where
