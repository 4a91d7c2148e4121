"""A number that the program gives to a library's function is told by that function."""

from __future__ import annotations

import pytest

from xlagraph.explain import explain_modules
from xlagraph.hlo import read_module

TABLES = """HloModule step

FileNames
1 "train.py"
2 "/venv/lib/python3.11/site-packages/torch/nn/functional.py"

FunctionNames
1 "encode"
2 "{function}"

FileLocations
1 {{file_name_id=1 function_name_id=1 line=7 end_line=7 column=0 end_column=0}}
2 {{file_name_id=2 function_name_id=2 line=211 end_line=211 column=0 end_column=0}}

StackFrames
1 {{file_location_id=1 parent_frame_id=1}}
2 {{file_location_id=2 parent_frame_id=2}}
"""
CUT = """
ENTRY main {{
  x = f32[8,32] parameter(0)
  bound = f32[] constant({bound}), metadata={{stack_frame_id=2}}
  bounds = f32[8,32] broadcast(bound), dimensions={{}}
  above = pred[8,32] compare(x, bounds), direction=GT, metadata={{stack_frame_id=2}}
  t = f32[8,32] tanh(x)
  u = f32[8,32] select(above, t, x), metadata={{stack_frame_id=2}}
  other = f32[] constant({other}), metadata={{stack_frame_id={frame}}}
  others = f32[8,32] broadcast(other), dimensions={{}}
  behind = pred[8,32] compare(t, others), direction=GT, metadata={{stack_frame_id={frame}}}
  v = f32[8,32] select(behind, u, t)
  ROOT r = (f32[8,32]) tuple(v)
}}
"""


def cut(bound: float, function: str, other: float = 0.5, frame: int = 1):
    body = CUT.format(bound=bound, other=other, frame=frame)
    return read_module(TABLES.format(function=function) + body, "m")


@pytest.mark.parametrize(("function", "is_told"), [("_threshold", True), ("mse_loss", False)])
def test_the_function_is_named_where_the_number_is_its_own(function, is_told):
    (cause,) = explain_modules(cut(0.1, function), cut(0.2, function)).causes
    assert str(cause.kind) == "constant-value"
    assert ("given to threshold" in str(cause.in_short)) == is_told
    assert ("torch.where" in str(cause.fix_in_short)) == is_told
    assert str(cause.fix_in_short).startswith("Keep this number") != is_told


@pytest.mark.parametrize(("other", "frame", "number"), [(0.2, 2, 1), (0.3, 2, 2), (0.2, 1, 2)])
def test_one_number_in_several_places_of_a_line_is_one(other, frame, number):
    a = cut(0.1, "_threshold", 0.1, frame)
    found = explain_modules(a, cut(0.2, "_threshold", other, frame))
    assert found.proved
    assert len(found.causes) == number


CALLED = """HloModule jit_step

{function} {{
  x = f32[8,32] parameter(0)
  number = s32[] parameter(1)
  converted = f32[] convert(number)
  points = f32[] constant(32)
  left = f32[] {used}(points, converted)
  each = f32[8,32] broadcast(left), dimensions={{}}
  ROOT divided = f32[8,32] divide(x, each)
}}

outer.7 {{
  y = f32[8,32] parameter(0)
  handed = s32[] parameter(1)
  ROOT inner = f32[8,32] call(y, handed), to_apply={function}
}}

ENTRY main {{
  z = f32[8,32] parameter(0)
  given = s32[] constant({number})
  ROOT r = f32[8,32] call(z, given), to_apply={called}
}}
"""


def called(number: int, function: str, *, used: str = "subtract", outer: bool = False):
    name = "outer.7" if outer else function
    text = CALLED.format(number=number, function=function, used=used, called=name)
    return read_module(text.replace("outer.7", "_std.7"), "m")


@pytest.mark.parametrize(
    ("function", "used", "told"),
    [
        ("_var.3", "subtract", "number given to _var as ddof: 0 became 1"),
        ("_var.3", "add", "number given to _var: 0 became 1"),
        ("jit__blend_.12", "subtract", "number given to blend_: 0 became 1"),
        ("_lambda_.3", "subtract", "number baked into the graph: 0 became 1"),
        ("closed_call.3", "subtract", "number baked into the graph: 0 became 1"),
        ("None.3", "subtract", "number baked into the graph: 0 became 1"),
    ],
)
def test_a_function_that_is_called_tells_what_a_number_is(function, used, told):
    one, other = (called(number, function, used=used) for number in (0, 1))
    found = explain_modules(one, other)
    assert found.proved
    assert told in str(found.verdict.what)
    assert "argument of the jitted function" in str(found.verdict.fix)


def test_what_a_function_hands_on_is_told_by_the_one_that_takes_it_first():
    found = explain_modules(*(called(number, "_var.3", outer=True) for number in (0, 1)))
    assert "number given to _std as ddof: 0 became 1" in str(found.verdict.what)
