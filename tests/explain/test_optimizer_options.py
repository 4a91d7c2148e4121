"""A term of the optimizer's formula is told by the stack that computes it, however far within."""

from __future__ import annotations

from xlagraph.explain import explain_modules
from xlagraph.hlo import read_module

STACKS = """
FileNames
1 "train.py"
2 "site-packages/torch/optim/FILE.py"
3 "site-packages/torch/_tensor.py"

FunctionNames
1 "step"
2 "_single_tensor"
3 "__rdiv__"

FileLocations
1 {file_name_id=1 function_name_id=1 line=5 end_line=5 column=1 end_column=2}
2 {file_name_id=2 function_name_id=2 line=300 end_line=300 column=1 end_column=2}
3 {file_name_id=3 function_name_id=3 line=1079 end_line=1079 column=1 end_column=2}

StackFrames
1 {file_location_id=1 parent_frame_id=1}
2 {file_location_id=2 parent_frame_id=2}
3 {file_location_id=3 parent_frame_id=3}
"""
STEP = """HloModule step, buffer_donor={ (0, {}) }
STACKS
ENTRY main {
  p = f32[4] parameter(0)
  g = f32[4] parameter(1)
  n = f32[4] tanh(g), metadata={op_type="aten__tanh" stack_frame_id=1}
  q = f32[4] add(p, n), metadata={op_type="aten__add" stack_frame_id=2}
  ROOT r = (f32[4]) tuple(q)
}
"""
TERM = """  s = f32[4] sqrt(n), metadata={op_type="aten__reciprocal" stack_frame_id=3}
  q = f32[4] add(p, s)"""


def cause(file: str):
    first = STEP.replace("STACKS", STACKS.replace("FILE", file))
    second = first.replace("  q = f32[4] add(p, n)", TERM)
    assert first != second
    explanation = explain_modules(read_module(first, "a"), read_module(second, "b"))
    assert explanation.proved
    (found,) = explanation.causes
    return found


def test_a_helper_that_an_optimizer_calls_belongs_to_the_optimizer():
    found = cause("adamw")
    assert found.kind.id == "optimizer-option"
    assert "tiny number" in str(found.fix_in_short)


def test_another_formula_of_radam_is_said_as_such():
    found = cause("radam")
    assert str(found.in_short) == "RAdam takes its other formula"
    assert "capturable=True" in str(found.fix)
