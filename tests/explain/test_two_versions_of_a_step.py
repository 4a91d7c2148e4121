"""Two versions of a jitted step: which network is called where, and who is who by its arguments."""

from __future__ import annotations

import pytest

from xlagraph.explain import explain_modules
from xlagraph.facts.program.arguments import same_arguments
from xlagraph.hlo import read_module

TABLES = """HloModule jit_step

FileNames
1 "{file}"

FunctionNames
1 "step"
2 "mlp"

FileLocations
1 {{file_name_id=1 function_name_id=2 line=5 end_line=5 column=0 end_column=0}}
2 {{file_name_id=1 function_name_id=1 line=20 end_line=20 column=0 end_column=0}}
3 {{file_name_id=1 function_name_id=1 line=21 end_line=21 column=0 end_column=0}}
4 {{file_name_id=1 function_name_id=1 line=22 end_line=22 column=0 end_column=0}}

StackFrames
1 {{file_location_id=2 parent_frame_id=1}}
2 {{file_location_id=3 parent_frame_id=1}}
3 {{file_location_id=4 parent_frame_id=1}}
4 {{file_location_id=1 parent_frame_id=2}}
5 {{file_location_id=1 parent_frame_id=3}}
6 {{file_location_id=1 parent_frame_id=4}}

"""
"""The lines 20, 21 and 22 of step() call mlp(), which computes in its line 5: frames 4, 5 and 6."""


def called(name: str, weight: str, source: str, frame: int, opcode: str = "tanh") -> str:
    at = f'metadata={{op_name="mlp" stack_frame_id={frame}}}'
    return (
        f"  {name}_d = f32[4,4] dot({source}, {weight}), lhs_contracting_dims={{1}}, "
        f"rhs_contracting_dims={{0}}, {at}\n  {name} = f32[4,4] {opcode}({name}_d), {at}\n"
    )


def step(
    goal: str, file: str = "a.py", names: tuple[str, str] = ("q", "target"), **opcodes: str
) -> str:
    """The value, the goal and what is beyond it, each by a network; the target follows the other.

    `goal`: whose weights compute the goal.
    """
    text = TABLES.format(file=file) + "ENTRY main {\n"
    inputs = (("x", "x"), ("y", "y"), ("own", f"state['{names[0]}']"), ("other", names[1]))
    for k, (one, name) in enumerate(inputs):
        text += f'  {one} = f32[4,4] parameter({k}), metadata={{op_name="{name}"}}\n'
    text += called("value", "own", "x", 4, opcodes.get("value", "tanh"))
    text += called("goal", goal, "y", 5, opcodes.get("goal", "tanh"))
    text += called("beyond", "other", "goal", 6)
    text += "  error = f32[4,4] subtract(value, beyond)\n"
    text += "  new = f32[4,4] add(own, error)\n  kept = f32[4,4] add(other, own)\n"
    text += "  most = f32[4,4] maximum(kept, other)\n"
    shapes = ", ".join(["f32[4,4]"] * 3)
    return text + f"  ROOT r = ({shapes}) tuple(error, new, most)\n}}\n"


def test_the_other_weights_are_named_as_arguments_at_the_call_that_takes_them():
    explanation = explain_modules(read_module(step("other")), read_module(step("own", "b.py")))
    (cause,) = explanation.causes
    assert (cause.proved, cause.kind.id) == (True, "other-operand")
    assert "takes target in A and state['q'] in B" in str(explanation.verdict.what)
    assert "b.py:21 in step()" in str(explanation.verdict.where)
    assert str(explanation.verdict.fix).startswith("Keep one of the two versions")


def test_what_all_calls_of_a_function_have_otherwise_stands_in_the_function():
    edited = step("other", "b.py").replace("tanh", "cosine")
    explanation = explain_modules(read_module(step("other")), read_module(edited))
    assert explanation.proved
    assert "b.py:5 in mlp()" in str(explanation.verdict.where)


def test_of_one_program_the_line_of_the_operation_is_told():
    explanation = explain_modules(read_module(step("other")), read_module(step("own")))
    assert explanation.proved
    assert "a.py:5 in mlp()" in str(explanation.verdict.where)


def test_arguments_that_are_called_otherwise_say_nothing():
    first, renamed = (
        read_module(step("other", names=names)) for names in (("q", "target"), ("a", "b"))
    )
    assert same_arguments(first, renamed) is None
    assert explain_modules(first, renamed).diff.same
    turned = read_module(step("other", names=("q", "y")).replace('"y"', '"target"', 1))
    assert explain_modules(first, turned).diff.same


@pytest.mark.parametrize("shape", ["f32[4,4]", "f32[4,5]"])
def test_arguments_are_known_where_both_take_the_same(shape: str):
    texts = step("other"), step("own").replace("x = f32[4,4]", f"x = {shape}")
    known = same_arguments(*map(read_module, texts))
    assert (known is not None) is (shape == "f32[4,4]")
    if known:
        assert set(known[0].inputs.values()) == {"x", "y", "state['q']", "target"}
