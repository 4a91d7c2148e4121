"""Hooks that a program attaches again and again."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from xlagraph.facts.hooks import hook_line, is_forward
from xlagraph.graph import SourceFrame
from xlagraph.message import SourceLine
from xlagraph.runs.hooks import attached_again

LINE = SourceLine("train.py", 7, "record")
HELPER = SourceFrame("train.py", 3, "mean_of")
HOOK = SourceFrame("train.py", 7, "record")
FORWARD = SourceFrame("net.py", 9, "forward")
TRAIN = SourceFrame("train.py", 30, "train")
MAIN = SourceFrame("train.py", 50, "<module>")
CALL = SourceFrame("/venv/site-packages/torch/nn/modules/module.py", 1881, "_call_impl")
STEP = SourceFrame("/venv/site-packages/torch/optim/optimizer.py", 525, "wrapper")
GRADIENT = SourceFrame("/venv/site-packages/torch/utils/hooks.py", 233, "hook")
LAYER = SourceFrame("/venv/site-packages/torch/nn/modules/linear.py", 134, "forward")


@pytest.mark.parametrize(
    "stack",
    [
        (HOOK, CALL, FORWARD, CALL, TRAIN),
        (HELPER, HOOK, CALL, TRAIN),
        (LAYER, CALL, HOOK, CALL, TRAIN),
        (HOOK, STEP, TRAIN),
        (HOOK, GRADIENT),
        (HOOK,),
    ],
    ids=["forward", "calls a function", "calls a layer", "optimizer", "backward", "gradient"],
)
def test_what_pytorch_calls_on_its_own_is_a_hook(stack):
    assert hook_line(stack) == LINE


@pytest.mark.parametrize(
    "stack",
    [
        (LAYER, CALL, FORWARD, CALL, TRAIN, MAIN),
        (FORWARD, CALL, TRAIN, MAIN),
        (SourceFrame("optimizers.py", 8, "step"), STEP, MAIN),
        (SourceFrame("train.py", 7),),
        (HELPER, SourceFrame("/usr/lib/python3.11/threading.py", 975, "run")),
        (SourceFrame("/venv/site-packages/torch/utils/checkpoint.py", 1100, "unpack_hook"),),
    ],
    ids=["layer", "model", "own optimizer", "line alone", "thread", "library"],
)
def test_what_the_program_calls_is_none(stack):
    assert hook_line(stack) is None
    assert is_forward(stack) == (CALL in stack)


def graphs(made, *, forward=20):
    """Graphs of one place, with what a hook makes in each, and the forward passes."""
    sizes = [forward] * len(made) if isinstance(forward, int) else forward
    process = SimpleNamespace(file="records-0.jsonl")
    for k, (number, size) in enumerate(zip(made, sizes, strict=True)):
        sync = SimpleNamespace(index=k, entry="sync", call_site=("train.py", 40))
        sketch = SimpleNamespace(hooks=((LINE, number),) if number else (), forward=size)
        record = SimpleNamespace(digest=str(k))
        yield SimpleNamespace(process=process, sync=sync, sketch=sketch, record=record)


def test_graphs_that_run_a_hook_once_more_than_those_before():
    (found,) = attached_again(list(graphs([4, 4, 8, 8, 8, 12, 12])))
    assert (found.digests, found.lines, found.times) == ({"2", "5"}, (LINE,), (1, 2, 3))


@pytest.mark.parametrize(
    ("made", "forward"),
    [
        ([4, 8, 12], [20, 40, 60]),
        ([4, 8, 8], 20),
        ([4, 8, 12, 4], 20),
        ([4, 9, 12], 20),
        ([4, 8, 12], 0),
    ],
    ids=["a longer loop calls the module", "twice", "taken away", "other work", "no module"],
)
def test_other_hooks_are_not_attached_again(made, forward):
    assert attached_again(list(graphs(made, forward=forward))) == []
