"""Python numbers that are equal, or 0, 1 or -1, in some steps, and where they are used."""

from __future__ import annotations

import pytest

from xlagraph.cause.model import Context
from xlagraph.explain import explain_modules
from xlagraph.hlo import read_module
from xlagraph.tensors import Role, Tensor

FRAMES = """
FileNames
1 "/venv/site-packages/torch/autograd/__init__.py"
2 "train.py"

FunctionNames
1 "_make_grads"
2 "train"

FileLocations
1 {file_name_id=2 function_name_id=2 line=9 end_line=9 column=0 end_column=0}
2 {file_name_id=1 function_name_id=1 line=221 end_line=221 column=0 end_column=0}

StackFrames
1 {file_location_id=1 parent_frame_id=1}
2 {file_location_id=2 parent_frame_id=2}

"""
"""``backward()`` is called in the line 9 of train.py."""
SEED = 'metadata={op_type="prim__Constant" stack_frame_id=2}'
FORWARD = 'metadata={op_type="aten__mul" stack_frame_id=1}'


def weighted(numbers: str, *, frames: str = "", seed: str = "", product: str = "") -> str:
    """Values times numbers, of which equal ones are one parameter, and ``1`` is a constant."""
    places = {name: k for k, name in enumerate(dict.fromkeys(numbers.replace("1", "")))}
    lines = [f"  {n} = f32[] parameter({3 + k})" for n, k in places.items()]
    lines += [f"  s = f32[] constant(1){seed and ', ' + seed}"]
    for k, name in enumerate(numbers):
        own = f"c{k}" if name == "1" else name
        lines += [f"  c{k} = f32[] constant(1)"] if name == "1" else []
        lines += [
            f"  x{k} = f32[4] parameter({k})",
            f"  m{k} = f32[] multiply(s, {own}){product and ', ' + product}",
            f"  b{k} = f32[4] broadcast(m{k}), dimensions={{}}",
            f"  t{k} = f32[4] {('sine', 'cosine', 'tanh')[k]}(x{k})",
            f"  y{k} = f32[4] multiply(t{k}, b{k})",
        ]
    names = ", ".join(f"y{k}" for k in range(3))
    lines += [f"  ROOT z = (f32[4], f32[4], f32[4]) tuple({names})"]
    return f"HloModule m\n{frames}\nENTRY e {{\n" + "\n".join(lines) + "\n}\n"


def cause(first: str, second: str, **contexts: Context):
    explained = explain_modules(read_module(first, "a"), read_module(second, "b"), **contexts)
    assert explained.proved
    (found,) = explained.causes
    return found


@pytest.mark.parametrize(("before", "after"), [("aab", "aba"), ("aba", "abb"), ("abb", "aab")])
def test_numbers_of_which_others_are_equal(before, after):
    found = cause(weighted(before), weighted(after))
    assert found.kind.id == "shared-scalar"
    assert str(found.title).startswith("other Python numbers are equal in B than in A")


def test_tensors_by_name_are_no_numbers():
    named = Context(
        parameters={k: Tensor("", name, Role.PARAMETER) for k, name in enumerate("xyzab")}
    )
    modules = [read_module(weighted(numbers), numbers) for numbers in ("aab", "aba")]
    causes = explain_modules(*modules, named, named).causes
    assert not any(found.kind.id == "shared-scalar" for found in causes)


def test_a_number_without_a_line_is_used_where_backward_is_called():
    pair = [weighted(n, frames=FRAMES, seed=SEED) for n in ("aab", "aba")]
    line = cause(*pair).place.line
    assert line
    assert (line.file, line.line) == ("train.py", 9)


def test_without_what_backward_begins_with_the_line_is_only_near():
    pair = [weighted(n, frames=FRAMES, seed=FORWARD) for n in ("aab", "aba")]
    assert cause(*pair).place.is_near


BAKED = """HloModule m

ENTRY e {
  x = f32[4] parameter(0)
  n = f32[] constant(NUMBER), metadata={op_type="prim__Constant"}
  b = f32[4] broadcast(n), dimensions={}, metadata={op_type="OPERATION"}
  ROOT y = f32[4] multiply(x, b), metadata={op_type="OPERATION"}
}
"""


@pytest.mark.parametrize(
    ("operation", "number", "kind"),
    [
        ("aten__mul", "1", "special-scalar"),
        ("aten__add", "-1", "special-scalar"),
        ("aten__mul", "2", "constant-value"),
        ("aten__hardtanh", "1", "constant-value"),
    ],
)
def test_a_number_that_goes_from_one_special_value_to_another(operation, number, kind):
    text = BAKED.replace("OPERATION", operation)
    found = cause(text.replace("NUMBER", "0"), text.replace("NUMBER", number))
    assert found.kind.id == kind
