"""Buckets that FSDP does not empty: which hooks it waits for, in records and in words."""

import pytest

from xlagraph.run.reader import read_run
from xlagraph.run.records import MissingGradient
from xlagraph.runs.explain import explain_run
from xlagraph.tensors import Role, Tensor

pytestmark = pytest.mark.torch_xla

PROGRAM = """
import sys
import torch, torch_xla
from torch import nn
from torch_xla.distributed.fsdp import XlaFullyShardedDataParallel as FSDP
options = dict(reduce_scatter_bucket_size_mb=0.03, pin_layout_in_collective_ops=False)

class Head(nn.Module):
    def __init__(self):
        super().__init__()
        self.out = nn.Linear(64, 64)
        self.scale = nn.Parameter(torch.ones(7, 3), requires_grad="frozen" not in sys.argv)

    def forward(self, x):
        y = self.out(x)
        return y * self.scale.sum() if "used" in sys.argv else y

inner = FSDP(nn.Linear(64, 64).to("xla"), **options)
model = FSDP(nn.Sequential(inner, Head().to("xla")), **options)
optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
torch_xla.sync()
for step in range(5):
    x = torch.randn(8, 64, device="xla")
    y = model(x)
    if "twice" in sys.argv:
        y = y + model(x + 1)
    if "within" in sys.argv:
        y.register_hook(lambda gradient: torch_xla.sync())
    y.pow(2).mean().backward()
    optimizer.step()
    optimizer.zero_grad()
    torch_xla.sync()
"""
SCALE = Tensor("1", "scale", Role.PARAMETER)


@pytest.fixture
def captured(run_program, tmp_path):
    """The run folder of the program with these arguments."""

    def run(*arguments):
        done = run_program(PROGRAM, *arguments, XLAGRAPH="1")
        assert "xlagraph: " in done.stderr
        assert "failed" not in done.stderr
        return tmp_path / "xlagraph-run"

    return run


def step_buckets(folder):
    (process,) = read_run(folder).processes
    return [bucket for sync in process.syncs if sync.kind == "step" for bucket in sync.buckets]


def line_of(text):
    return next(n for n, line in enumerate(PROGRAM.splitlines(), 1) if text in line)


def bucket_cause(folder):
    groups = explain_run(read_run(folder)).groups
    return next(group.cause for group in groups if group.kind.id == "bucket-carry")


def test_a_parameter_without_gradient_is_named(captured):
    folder = captured()
    buckets = step_buckets(folder)
    assert len(buckets) == 5
    assert {bucket.bucket for bucket in buckets} == {"root"}
    assert {(bucket.hooks_left, bucket.hooks) for bucket in buckets} == {(1, 3)}
    for bucket in buckets:
        (missing,) = bucket.without_gradient
        assert (missing.tensor, missing.shape, missing.owner_class) == (SCALE, "f32[7,3]", "Head")
        assert [frame.line for frame in missing.defined] == [line_of("def __init__")]
        assert bucket.made[0].line == line_of("model = FSDP(")
    (process,) = read_run(folder).processes
    assert process.flushes
    assert not any(one.before.hooks for one in process.flushes)
    assert not any(note.what == "backward" for note in process.notes)


def test_the_explanation_says_what_fsdp_waits_for(captured):
    cause = bucket_cause(captured())
    first = cause.evidence[0]
    words = str(first.text)
    assert words.startswith(
        "the root FSDP module still waits for 1 of 3 post-backward hooks as the step ends: "
        "1.scale (f32[7,3], of a Head, "
    )
    assert words.endswith(") got no gradient")
    assert first.sources[0].line == line_of("model = FSDP(")
    assert "carry tensors over the step, as 1.scale gets no gradient" in str(cause.title)
    assert str(cause.fix).startswith("Put a frozen copy in its place before FSDP wraps")
    assert "m = model[1]\nm.scale = torch.nn.Parameter(m.scale.data.clone()" in str(cause.fix)
    assert "optimizer.step()" in str(cause.effect)
    assert "reduce_scatter_bucket_size_mb=0" in str(cause.fix)


@pytest.mark.parametrize("change", ["used", "frozen"])
def test_what_the_fix_says_empties_the_buckets(captured, change):
    assert not step_buckets(captured(change))


def test_two_forwards_before_one_backward_spoil_the_count(captured):
    folder = captured("twice")
    buckets = step_buckets(folder)
    assert buckets
    assert all(bucket.hooks_left < 0 for bucket in buckets)
    assert not any(bucket.without_gradient for bucket in buckets)
    cause = bucket_cause(folder)
    assert "its forward ran more than once before backward" in str(cause.evidence[0].text)
    assert "Call each FSDP module once before each backward" in str(cause.fix)


def test_while_backward_goes_on_no_gradient_is_missed(captured):
    folder = captured("within")
    buckets = step_buckets(folder)
    waiting = [bucket for bucket in buckets if bucket.hooks_left == 3]
    assert len(waiting) == 4  # all but the first backward find the last one's leavings
    assert not any(bucket.without_gradient for bucket in waiting)
    assert {bucket.without_gradient for bucket in buckets if bucket.hooks_left == 1} == {
        (MissingGradient(SCALE, "f32[7,3]", "Head", buckets[0].without_gradient[0].defined),)
    }


def test_another_fsdp_costs_only_what_it_does_not_tell(run_program, tmp_path):
    """As where a later torch_xla calls its attributes otherwise."""
    changed = PROGRAM.replace(
        "torch_xla.sync()\nfor", "torch_xla.sync()\nmodel.full_param_infos = [7] * 3\nfor"
    )
    done = run_program(changed, XLAGRAPH="1")
    assert done.returncode == 0
    folder = tmp_path / "xlagraph-run"
    buckets = step_buckets(folder)
    assert len(buckets) == 5
    assert all(bucket.tensors and bucket.made and not bucket.hooks for bucket in buckets)
    (process,) = read_run(folder).processes
    assert len([note for note in process.notes if "backward" in note.detail + note.what]) == 1
