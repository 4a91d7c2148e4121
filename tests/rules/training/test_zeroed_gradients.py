"""Zeros of ``zero_grad``, and the order of what is computed before and behind the backward pass."""

from __future__ import annotations

import pytest

from xlagraph.explain import explain_modules
from xlagraph.hlo import read_module

FRAMES = """
FileNames
1 "/venv/site-packages/torch/optim/optimizer.py"
2 "train.py"

FunctionNames
1 "zero_grad"
2 "train"
3 "step"

FileLocations
1 {file_name_id=2 function_name_id=2 line=7 end_line=7 column=0 end_column=0}
2 {file_name_id=1 function_name_id=1 line=1042 end_line=1042 column=0 end_column=0}
3 {file_name_id=2 function_name_id=2 line=9 end_line=9 column=0 end_column=0}
4 {file_name_id=1 function_name_id=3 line=60 end_line=60 column=0 end_column=0}
5 {file_name_id=2 function_name_id=2 line=5 end_line=5 column=0 end_column=0}

StackFrames
1 {file_location_id=1 parent_frame_id=1}
2 {file_location_id=2 parent_frame_id=2}
3 {file_location_id=3 parent_frame_id=1}
4 {file_location_id=4 parent_frame_id=4}
5 {file_location_id=5 parent_frame_id=1}
"""
OF_ZERO_GRAD, OF_PROGRAM, OF_STEP, FORWARD = (
    f', metadata={{op_type="{kind}" stack_frame_id={frame}}}'
    for kind, frame in (("prim__Constant", 2), ("prim__Constant", 1), ("aten__add", 4), ("sin", 5))
)


def step(zeroed: int, *, made: str = OF_ZERO_GRAD, opcode: str = "tanh", steps: int = 1) -> str:
    """An update of two weights, by gradients that are added to zeros for the first so many.

    Args:
        zeroed: how many gradients there were.
        made: where the zeros come from.
        opcode: what the forward pass computes.
        steps: instructions of the optimizer.
    """
    lines, results = [], []
    for k in range(2):
        lines += [
            f"  w{k} = f32[4] parameter({2 * k})",
            f"  x{k} = f32[4] parameter({2 * k + 1})",
            f"  h{k} = f32[4] {opcode}(x{k}){FORWARD}",
            f"  g{k} = f32[4] multiply(h{k}, x{k})",
        ]
        gradient = f"g{k}"
        if k < zeroed:
            lines += [
                f"  c{k} = f32[] constant(0){made}",
                f"  z{k} = f32[4] broadcast(c{k}), dimensions={{}}{made}",
                f"  s{k} = f32[4] add(z{k}, g{k})",
            ]
            gradient = f"s{k}"
        lines += [f"  d{k}_0 = f32[4] negate({gradient}){OF_STEP}"]
        lines += [f"  d{k}_{n} = f32[4] sqrt(d{k}_{n - 1}){OF_STEP}" for n in range(1, steps)]
        lines += [f"  u{k} = f32[4] add(w{k}, d{k}_{steps - 1}){OF_STEP}"]
        results += [f"u{k}", gradient]
    shapes = ", ".join(["f32[4]"] * 4)
    lines += [f"  ROOT r = ({shapes}) tuple({', '.join(results)})"]
    return f"HloModule m\n{FRAMES}\nENTRY e {{\n" + "\n".join(lines) + "\n}\n"


def explained(first: str, second: str):
    found = explain_modules(read_module(first, "a"), read_module(second, "b"))
    assert found.proved
    return found.causes


@pytest.mark.parametrize(("before", "after", "expected"), [(0, 2, True), (1, 2, False)])
def test_gradients_that_were_none_before(before, after, expected):
    (cause,) = explained(step(before), step(after))
    assert cause.kind.id == "zeroed-gradient"
    assert cause.expected is expected
    assert cause.place.line
    assert cause.place.line.line == 7
    (back,) = explained(step(after), step(before))
    assert (back.kind.id, back.expected) == ("zeroed-gradient", False)


def test_zeros_of_the_program_itself_are_no_gradients_of_before():
    causes = explained(step(1, made=OF_PROGRAM), step(2, made=OF_PROGRAM))
    assert not any(cause.kind.id == "zeroed-gradient" for cause in causes)


def test_as_many_gradients_as_before_tell_nothing():
    causes = explained(step(2), step(2, opcode="sine"))
    assert not any(cause.kind.id == "zeroed-gradient" for cause in causes)


def test_the_forward_pass_comes_before_a_larger_piece_of_the_optimizer():
    first, *others = explained(step(0), step(0, opcode="sine", steps=6))
    assert first.place.line
    assert first.place.line.line == 5
    assert others
    assert max(cause.share for cause in others) > first.share


def test_the_optimizer_alone_is_a_cause():
    first, *_ = explained(step(0), step(0, steps=6))
    assert first.place.line
    assert first.place.line.line == 9
