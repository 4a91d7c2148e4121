"""Backward instructions and the lines they come from, beside what autograd itself says.

The truth in ``fixtures/origins`` was taken from autograd while the steps ran
(``fixtures/make_origins.py``).
"""

from __future__ import annotations

import gzip
import json
import re
from collections import Counter

import pytest
from hlo_helpers import FIXTURES

from xlagraph.graph import Module
from xlagraph.hlo import load, read_module
from xlagraph.hlo.origin import find_origins
from xlagraph.hlo.origin.autograd import bare_name, forward_names, has_matrix_derivative
from xlagraph.hlo.origin.groups import Groups
from xlagraph.hlo.proto.reader import read_proto

ORIGINS = FIXTURES / "origins"
SHARES = {
    "mlp": 0.75,
    "transformer": 0.42,
    "convolution": 0.77,
    "recurrent": 0.51,
    "misleading": 0.32,
}
"""Of the backward instructions with an operation, so many get an origin, at least."""


def step(name: str) -> Module:
    return read_proto(gzip.decompress((ORIGINS / f"{name}.hlo.pb.gz").read_bytes()))


def truth(name: str) -> dict[str, tuple[str, list[str]]]:
    rows = json.loads((ORIGINS / f"{name}.json").read_text())
    return {i: (row["node"], row["stack"]) for row in rows for i in row["instructions"]}


def frames_of(module: Module, i: int) -> list[str]:
    metadata = module.metadata(i)
    return [f"{f.file}:{f.line}" for f in metadata.frames] if metadata else []


@pytest.mark.parametrize("name", SHARES)
def test_no_instruction_gets_a_line_that_autograd_does_not_confirm(name):
    module, expected = step(name), truth(name)
    origins = find_origins(module)
    assert origins
    for i, origin in origins.items():
        node, stack = expected[module.names[i]]
        assert stack, "autograd knows the forward stack of every node here"
        made = [f"{f.file}:{f.line}" for f in origin.frames]
        assert made[-len(stack) :] == stack, (module.names[i], node, origin.rule)
        assert frames_of(module, origin.instruction) == made
        assert not frames_of(module, i)


@pytest.mark.parametrize("name", SHARES)
def test_coverage_does_not_fall(name):
    module, expected = step(name), truth(name)
    origins = find_origins(module)
    assert len(origins) / len(expected) >= SHARES[name]
    assert {"name", "value", "part"} <= Counter(o.rule for o in origins.values()).keys()


def test_an_origin_says_what_it_is():
    module = step("mlp")
    origin = next(
        o
        for i, o in find_origins(module).items()
        if "gelu_backward" in module.attributes[i].metadata
    )
    assert str(origin) == "backward of aten__gelu"
    assert origin.operation == "aten__gelu"
    assert any(
        f.file == "make_origins.py" and f.function.endswith("forward") for f in origin.frames
    )
    assert origin.frames[-1].function == "<module>"


def test_one_value_used_by_two_lines_says_nothing():
    """``F.gelu(v)`` twice: their derivatives use nothing that tells them apart."""
    module = step("misleading")
    derivatives = [
        i for i in range(len(module)) if "aten__gelu_backward" in module.attributes[i].metadata
    ]
    assert derivatives
    assert not find_origins(module).keys() & set(derivatives)


def test_without_whole_stacks_nothing_is_said():
    text = next(FIXTURES.glob("protos/torch_mlp/*before*.txt.gz"))
    assert not find_origins(load(str(text)))
    assert not find_origins(load(str(next(FIXTURES.glob("corpus/torch_mlp.hlo.0.gz"))) + ":3"))
    assert not find_origins(load(str(FIXTURES / "corpus" / "jax_scan.hlo.pb")))


TABLES = """FileNames
1 "train.py"
2 "torch/autograd/__init__.py"
3 "hooks.py"

FunctionNames
1 "<module>"
2 "forward"
3 "_make_grads"
4 "hook"

FileLocations
1 {file_name_id=1 function_name_id=1 line=10 end_line=10 column=0 end_column=0}
2 {file_name_id=1 function_name_id=2 line=3 end_line=3 column=0 end_column=0}
3 {file_name_id=1 function_name_id=2 line=4 end_line=4 column=0 end_column=0}
4 {file_name_id=2 function_name_id=3 line=5 end_line=5 column=0 end_column=0}
5 {file_name_id=3 function_name_id=4 line=7 end_line=7 column=0 end_column=0}

StackFrames
1 {file_location_id=1 parent_frame_id=1}
2 {file_location_id=2 parent_frame_id=2}
3 {file_location_id=3 parent_frame_id=2}
4 {file_location_id=4 parent_frame_id=2}
5 {file_location_id=5 parent_frame_id=1}
"""
"""In text the number of the parent is one more than it is: frames 1 and 5 have none."""
NOTE = {
    "line 3": "stack_frame_id=2",
    "line 4": "stack_frame_id=3",
    "seed": "stack_frame_id=4",
    "hook": "stack_frame_id=5",
    "backward": "",
}


def small_step(*rows: str) -> Module:
    """Rows such as ``y = multiply(x, w) mul line 3``, between two parameters and the end."""
    lines = ["x = f32[4]{0} parameter(0)", "w = f32[4]{0} parameter(1)"]
    for row in rows:
        call, name, place = re.fullmatch(r"(.*\)) (\w+) ([\w ]+)", row).groups()
        note = f'op_type="aten__{name}" op_name="aten__{name}" {NOTE[place]}'
        lines.append(f"{call.replace('= ', '= f32[4]{0} ')}, metadata={{{note.strip()}}}")
    lines[-1] = f"ROOT {lines[-1]}"
    return read_module(f"HloModule m\n\n{TABLES}\n\nENTRY e {{\n" + "\n".join(lines) + "\n}\n")


FORWARD = ("y = multiply(x, w) mul line 3", "z = tanh(y) tanh line 4")
SEED = "g = constant({1, 1, 1, 1}) constant seed"


def found(*rows: str) -> dict[str, tuple[int, str]]:
    module = small_step(*FORWARD, SEED, *rows)
    origins = find_origins(module)
    return {module.names[i]: (o.frames[0].line, o.rule) for i, o in origins.items()}


def test_rules_on_a_small_step():
    assert found(
        "b = tanh(z) tanh_backward backward",
        "c = multiply(g, b) tanh_backward backward",
        "d = multiply(c, w) mul backward",
        "e = negate(c) sum backward",
    ) == {"b": (4, "name"), "c": (4, "name"), "d": (3, "value"), "e": (3, "gradient")}


def test_hooks_are_not_taken_for_the_forward_pass():
    """Their stacks begin in a thread of the backward pass."""
    derivative = "b = multiply(g, z) tanh_backward backward"
    assert "d" in found(derivative, "d = multiply(b, w) mul backward")
    assert "d" not in found(
        derivative, "h = exponential(w) exp hook", "d = multiply(b, h) mul backward"
    )


def test_a_value_that_two_lines_may_have_saved_says_nothing():
    again = "u = exponential(w) exp line 4", "v = multiply(u, z) mul line 4"
    derivative = "b = multiply(g, v) mul_backward backward"
    assert "d" not in found(*again, derivative, "d = multiply(b, w) mul backward")


def test_without_a_first_gradient_there_is_no_backward_pass():
    module = small_step(*FORWARD, "b = multiply(z, w) mul backward")
    assert not find_origins(module)


def test_frames_of_a_wrong_table_end():
    text = TABLES.replace(
        "1 {file_location_id=1 parent_frame_id=1}", "1 {file_location_id=1 parent_frame_id=3}"
    )
    module = read_module(
        f"HloModule m\n\n{text}\nENTRY e {{\n  ROOT p = f32[] parameter(0), "
        'metadata={op_name="p" stack_frame_id=2}\n}\n'
    )
    metadata = module.metadata(0)
    assert metadata
    assert len(metadata.frames) == 1000


def test_names_of_operations():
    assert bare_name("aten___softmax_backward_data") == "softmax_backward_data"
    assert bare_name("xla__device_data") == "device_data"
    assert forward_names("gelu_backward") == ("gelu",)
    assert forward_names("softmax_backward_data") == ("softmax",)
    assert forward_names("mul") == ()
    assert has_matrix_derivative("addmm")
    assert has_matrix_derivative("linalg_solve")
    assert not has_matrix_derivative("mul")
    assert not has_matrix_derivative("native_batch_norm")


def test_groups_grow_together():
    groups = Groups()
    groups.join(5, 3)
    groups.join(9, 5)
    assert {groups.find(n) for n in (3, 5, 9)} == {3}
    assert groups.find(4) == 4
