"""Hooks that a program attaches again and again."""

from __future__ import annotations

from itertools import pairwise
from types import SimpleNamespace

import pytest

from xlagraph.cause.verdict import Place
from xlagraph.facts.program.hooks import hook_line, is_forward
from xlagraph.graph import SourceFrame
from xlagraph.message import SourceLine, say
from xlagraph.rules.inputs.live_tensors import LIVE_TENSOR
from xlagraph.rules.shapes.sizes import PYTHON_SIZE
from xlagraph.run.records import SettingRecord
from xlagraph.runs.causes.hooks import attached_again, hook_groups, with_collecting
from xlagraph.runs.kinds import REPEATED_HOOK
from xlagraph.runs.model import CauseGroup
from xlagraph.runs.steps.spent import Spent

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
    assert (found.digests, found.lines) == ({"2", "5"}, (LINE,))
    assert list(found.times.values()) == [1, 1, 2, 2, 2, 3, 3]


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


def told(made, *causes, nearest=""):
    """Which of these graphs a hook accounts for; the causes are those of the last one."""
    (one,) = attached_again(list(graphs(made)))
    nodes = [
        SimpleNamespace(
            digest=str(k), warm_up=False, compiles=1, spent=Spent(()), step=k, explanation=None
        )
        for k in range(len(made))
    ]
    nodes[-1].explanation = SimpleNamespace(causes=causes)
    nodes[-1].nearest = nearest
    (group,) = hook_groups([one], nodes, [])
    return group.graphs


def test_what_a_step_makes_for_the_next_is_of_the_hook_as_well():
    state = SimpleNamespace(expected=True, kind=PYTHON_SIZE, lines=())
    other = SimpleNamespace(expected=False, kind=PYTHON_SIZE, lines=())
    assert told([4, 8, 12, 12], state) == ("1", "2", "3")
    assert told([4, 8, 12, 12], state, other) == ("1", "2")
    assert told([4, 8, 12, 12]) == ("1", "2")


def test_what_a_hook_made_and_is_kept_is_of_the_hook_as_well():
    kept = SimpleNamespace(expected=False, kind=LIVE_TENSOR, lines=(LINE,))
    elsewhere = SimpleNamespace(
        expected=False, kind=LIVE_TENSOR, lines=(SourceLine("net.py", 9, "forward"),)
    )
    assert told([4, 8, 12, 12], kept, nearest="1") == ("1", "2", "3")
    assert told([4, 8, 12, 12], kept, nearest="2") == ("1", "2")  # as many hooks in both
    assert told([4, 8, 12, 12], elsewhere, nearest="1") == ("1", "2")


def test_a_hook_of_modules_that_run_at_several_places_is_one_cause():
    (one,) = attached_again(list(graphs([4, 8, 12])))
    nodes = [
        SimpleNamespace(digest=k, warm_up=False, compiles=1, spent=Spent(()), step=1)
        for k in ("1", "2", "b", "c")
    ]
    for node in nodes:
        node.explanation = None
    elsewhere = one._replace(digests=frozenset("bc"), times={"a": 0, "b": 1, "c": 2})
    (group,) = hook_groups([one, elsewhere], nodes, [])
    assert group.graphs == ("1", "2", "b", "c")
    assert (
        "stands 1 to 3 times in 3 graphs one after the other, and 0 to 2 times in 3 graphs one "
        "after the other, while" in str(group.title)
    )


def attached_at(*calls):
    """Where a hook is told that the program attaches by these calls."""
    (one,) = attached_again(list(graphs([4, 8, 12])))
    nodes = [
        SimpleNamespace(
            digest=str(k), warm_up=False, compiles=1, spent=Spent(()), step=k, explanation=None
        )
        for k in range(3)
    ]
    settings = [SettingRecord("train.py", line, f, "hook", hook) for line, f, hook in calls]
    (group,) = hook_groups([one], nodes, [SimpleNamespace(settings=settings)])
    return group.place.line.line


def test_the_call_that_attaches_a_hook_is_its_place():
    assert attached_at((20, "start_epoch", "record")) == 20
    assert attached_at((21, "start", "record"), (20, "start", "record")) == 20
    assert attached_at((3, "__init__", "other"), (20, "start_epoch", "record")) == 20


@pytest.mark.parametrize(
    "calls",
    [
        (),
        ((20, "start_epoch", "another"),),
        ((3, "__init__", "record"), (20, "start_epoch", "record")),
    ],
    ids=["not known", "of another hook", "in two functions"],
)
def test_a_hook_whose_call_is_not_known_stays_where_it_computes(calls):
    assert attached_at(*calls) == LINE.line


def collected(sizes, *, forward=20, runs=4, calls=(("attach", "grab"),), sources=()):
    """What graphs of these numbers of joined tensors are told as, and where."""
    from_list = [
        SimpleNamespace(
            digest=str(k),
            nearest=str(k - 1),
            instructions=100 + size,
            compiles=1,
            hits=runs - 1,
            explanation=SimpleNamespace(
                causes=(SimpleNamespace(lines=(LINE,)),),
                first_a=concatenate(before),
                first_b=concatenate(size),
            ),
        )
        for k, (before, size) in enumerate(pairwise(sizes), 1)
    ]
    first = SimpleNamespace(digest="0", instructions=100, compiles=1, hits=runs - 1)
    group = CauseGroup(
        kind=PYTHON_SIZE,
        title=say("title"),
        cause=None,
        further=(),
        graphs=tuple(node.digest for node in from_list),
        compiles=len(from_list),
        spent=Spent(()),
        expected=False,
        proved=True,
        place=Place(LINE),
    )
    passes = [forward] * len(sizes) if isinstance(forward, int) else forward
    made = [
        SimpleNamespace(record=SimpleNamespace(digest=str(k)), sketch=SimpleNamespace(forward=one))
        for k, one in enumerate(passes)
    ]
    settings = [SettingRecord("t.py", 30 + k, f, "collects", h) for k, (f, h) in enumerate(calls)]
    processes = [SimpleNamespace(settings=settings, sources=sources)]
    (found,) = with_collecting([group], [first, *from_list], made, processes)
    return found.kind, found.place.line.line


def concatenate(number):
    return SimpleNamespace(
        opcode="concatenate", payload="", attributes="", shape=f"f32[{number}]", tensor=None
    )


def test_a_list_that_a_hook_fills_which_is_attached_again():
    assert collected([3, 6, 9, 12]) == (REPEATED_HOOK, 30)


@pytest.mark.parametrize("sizes", [[1, 3, 5, 7], [3, 6, 9, 12]])
def test_a_hook_that_a_step_attaches_makes_a_list_longer_each_time(sizes):
    """What takes the list is a module, too, so that modules compute more each time."""
    calling = [SimpleNamespace(lines=("features = self.attach(x)", "loss = stack(features)"))]
    other = {"forward": [20, 40, 60, 80], "runs": 1}
    assert collected(sizes, **other, sources=calling) == (REPEATED_HOOK, 30)
    defining = [SimpleNamespace(lines=("def attach(self, x):",))]
    assert collected(sizes, **other, sources=defining) == (PYTHON_SIZE, LINE.line)


@pytest.mark.parametrize(
    "other",
    [
        {"sizes": [3, 4, 5, 6]},
        {"sizes": [3, 6, 9, 12], "forward": [20, 40, 60, 80]},
        {"sizes": [3, 6, 9, 12], "runs": 1},
        {"sizes": [3, 9, 6, 12]},
        {"sizes": [3, 6]},
        {"sizes": [3, 6, 9, 12], "calls": ()},
        {"sizes": [3, 6, 9, 12], "calls": (("attach", "grab"), ("__init__", "grab"))},
    ],
    ids=["one more", "more passes", "each step", "no order", "few", "no hook", "two functions"],
)
def test_lists_that_grow_otherwise_stay_a_size(other):
    assert collected(**other) == (PYTHON_SIZE, LINE.line)
