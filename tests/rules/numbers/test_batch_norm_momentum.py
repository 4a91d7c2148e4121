"""BatchNorm whose momentum is None: the n-th batch counts 1 / n, a constant of the graph."""

from __future__ import annotations

import pytest

from xlagraph.explain import explain_modules
from xlagraph.hlo import read_module

TABLES = """
FileNames
1 "train.py"
2 "/venv/lib/python3.11/site-packages/torch/optim/swa_utils.py"
3 "net.py"
4 "/venv/lib/python3.11/site-packages/torch/nn/functional.py"

FunctionNames
1 "main"
2 "CALLER"
3 "forward"
4 "batch_norm"

FileLocations
1 {file_name_id=1 function_name_id=1 line=9 end_line=9 column=0 end_column=0}
2 {file_name_id=2 function_name_id=2 line=335 end_line=335 column=0 end_column=0}
3 {file_name_id=3 function_name_id=3 line=5 end_line=5 column=0 end_column=0}
4 {file_name_id=4 function_name_id=4 line=2813 end_line=2813 column=0 end_column=0}

StackFrames
1 {file_location_id=1 parent_frame_id=1}
2 {file_location_id=2 parent_frame_id=2}
3 {file_location_id=3 parent_frame_id=3}
4 {file_location_id=4 parent_frame_id=4}

"""
"""``main`` calls in train.py:9 a function of torch, that ``forward``, and that a batch norm."""
STEP = """HloModule step
TABLES
ENTRY main {
  running = f32[] parameter(0)
  mean = f32[] parameter(1)
  one = f32[] constant(1)
  part = f32[] constant(PART), metadata={op_type="OPERATION" stack_frame_id=4}
  rest = f32[] subtract(one, part)
  kept = f32[] multiply(running, rest)
  new = f32[] multiply(mean, part)
  ROOT sum = f32[] add(kept, new)
}
"""


def cause_of(old: str, new: str, caller: str, operation: str = "xla__moving_average"):
    def module(part: str):
        text = STEP.replace("TABLES", TABLES.replace("CALLER", caller))
        return read_module(text.replace("PART", part).replace("OPERATION", operation), "a")

    explanation = explain_modules(module(old), module(new))
    assert explanation.proved
    (cause,) = explanation.causes
    assert cause.kind.id == "constant-value"
    return cause


@pytest.mark.parametrize(
    ("old", "new"), [("1", "0.5"), ("0.5", "0.333333343"), ("0.0769230798", "0.0714285746")]
)
def test_parts_of_one_batch_more_are_a_cumulative_average(old, new):
    cause = cause_of(old, new, "train_epoch")
    assert str(cause.in_short) == "momentum=None in BatchNorm bakes in a new number each step"
    assert str(cause.short_fix) == "Give momentum a number, or collect the statistics on the host."
    assert str(cause.place.line) == "net.py:5"


def test_a_pass_that_torch_makes_is_told_by_the_line_that_calls_it():
    cause = cause_of("0.25", "0.2", "update_bn")
    assert str(cause.short_fix) == "Run the pass with momentum a number, or do it on the host."
    assert str(cause.place.line) == "train.py:9"
    assert "net.py:5 in forward(), in the pass that update_bn() makes at train.py:9" in str(
        cause.title
    )


@pytest.mark.parametrize(
    ("old", "new"),
    [("0.1", "0.05"), ("0.25", "0.2"), ("0.333333343", "0.5")],
    ids=["halved", "as a schedule may have it", "backwards"],
)
def test_other_numbers_are_a_momentum_that_is_set(old, new):
    cause = cause_of(old, new, "train_epoch")
    told = f"BatchNorm's momentum is baked into the graph: {old} became {new}"
    assert str(cause.in_short) == told
    assert "None" not in str(cause.fix)


def test_numbers_of_another_operation_keep_their_own_words():
    cause = cause_of("0.5", "0.333333343", "train_epoch", "aten__dropout")
    assert "momentum" not in str(cause.in_short)
