"""Several values read in one step, each of a list that has grown."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
from written_runs import write

from xlagraph.facts.program.enclosing import ProgramText
from xlagraph.message import SourceLine
from xlagraph.rules.dtypes.dtype import DTYPE
from xlagraph.rules.inputs.added_input import ADDED_INPUT
from xlagraph.rules.inputs.live_tensors import LIVE_TENSOR
from xlagraph.runs.causes.lists import AsList
from xlagraph.runs.kinds import GROWING_GRAPH, UNEXPLAINED
from xlagraph.runs.of_lists import joins_of_lists, left_of_lists
from xlagraph.runs.reasons import Reason

READ, END = 12, 20
STEP = """HloModule step

ENTRY %main (p: f32[8]) -> f32[8] {
  %p = f32[8]{0} parameter(0)
  ROOT %a = f32[8]{0} tanh(f32[8]{0} %p)
}
"""
WRITTEN = 'metadata={op_type="aten__stack" source_file="train.py" source_line=12}'


def joined(number, *, scaled):
    """The maximum of so many numbers in a list, or of twice as much."""
    inputs = "".join(
        f"  %p{k} = f32[] parameter({k})\n  %r{k} = f32[1]{{0}} reshape(f32[] %p{k}), {WRITTEN}\n"
        for k in range(number)
    )
    parts = ", ".join(f"f32[1]{{0}} %r{k}" for k in range(number))
    taken = "%w" if scaled else "%v"
    wide = f"  %w = f32[{number}]{{0}} abs(f32[{number}]{{0}} %v), {WRITTEN}\n" if scaled else ""
    types = ", ".join(f"p{k}: f32[]" for k in range(number))
    return (
        "HloModule joined\n\n%most (x: f32[], y: f32[]) -> f32[] {\n  %x = f32[] parameter(0)\n"
        "  %y = f32[] parameter(1)\n  ROOT %m = f32[] maximum(f32[] %x, f32[] %y)\n}\n\n"
        f"ENTRY %main ({types}) -> f32[] {{\n{inputs}"
        f"  %v = f32[{number}]{{0}} concatenate({parts}), dimensions={{0}}, {WRITTEN}\n{wide}"
        "  %least = f32[] constant(0)\n"
        f"  ROOT %o = f32[] reduce(f32[{number}]{{0}} {taken}, f32[] %least), dimensions={{0}}, "
        f"to_apply=%most, {WRITTEN}\n}}\n"
    )


def test_values_of_lists_that_grow_together_are_one_cause(tmp_path):
    report = [(READ, False, "value"), (READ, True, "value")]
    syncs = []
    for number in range(5, 40, 5):
        syncs += [(END, STEP)] * 3
        syncs += [(line, joined(number, scaled=s), kind) for line, s, kind in report]
    run = write(tmp_path, syncs)
    (problem,) = run.problems
    assert problem.kind.id == "python-size"
    assert str(problem.title).startswith("a list of tensors has another length, 5 -> 10 joined: ")
    assert (problem.compiles, problem.further) == (14, ())


def test_what_is_left_of_the_list_makes_the_next_steps_other_graphs():
    """The values of a metric are read one by one; what none of them needs waits for the step."""
    here, there = (SourceLine("train.py", line, "main") for line in (12, 40))
    inner = here._replace(called=SourceLine("metric.py", 3, "compute"))
    grown = Reason(GROWING_GRAPH, here, AsList(SimpleNamespace(), ProgramText()))
    known = {
        **dict.fromkeys("ABC", grown),
        "D": Reason(LIVE_TENSOR, inner),
        "E": Reason(UNEXPLAINED, here),
        "F": Reason(LIVE_TENSOR, there),
        "G": Reason(DTYPE, here),
        "H": Reason(UNEXPLAINED),
    }
    nodes = [SimpleNamespace(digest=letter, warm_up=False) for letter in known]
    assert left_of_lists(nodes, known) == dict.fromkeys("DE", grown)
    del known["A"]
    assert left_of_lists(nodes[1:], known) == {}


@pytest.mark.parametrize(
    ("metric", "file", "joined"),
    [
        ("spearman", "/site-packages/torchmetrics/utilities/data.py", True),
        ("spearman", "train.py", False),
        ("", "/site-packages/torchmetrics/utilities/data.py", False),
    ],
    ids=["in torchmetrics", "in the program", "no metric"],
)
def test_graphs_that_join_the_list_of_a_metric_come_of_it(metric, file, joined):
    retell = AsList(SimpleNamespace(metric=metric), ProgramText())
    grown = Reason(GROWING_GRAPH, SourceLine("spearman.py", 35, "_rank_data"), retell)
    line = SourceLine("train.py", 85, "train")
    source = line._replace(called=SourceLine(file, 36, "dim_zero_cat"))
    first = SimpleNamespace(evidence=[SimpleNamespace(sources=[source])])
    known = dict.fromkeys("ABC", grown) | {"D": Reason(ADDED_INPUT, line)}
    nodes = [
        SimpleNamespace(digest=one, warm_up=False, explanation=SimpleNamespace(causes=[first]))
        for one in known
    ]
    assert joins_of_lists(nodes, known) == ({"D": grown} if joined else {})
