"""Captures that begin when the program has run already: no verdict without evidence."""

import pytest

from xlagraph.run.reader import read_run
from xlagraph.runs.explain import explain_run

pytestmark = pytest.mark.torch_xla

LATE = """
import sys, torch, torch_xla, xlagraph
model = torch.nn.Linear(4, 4).to("xla")
def step(rows):
    loss = model(torch.ones(rows, 4).to("xla")).sum()
    torch_xla.sync()
for _ in range(3):
    step(2)
with xlagraph.capture("run"):
    for k in range(10):
        step(eval(sys.argv[1]))
"""

LATE_SAID = "The process had compiled before the capture began"


def late(run_program, tmp_path, rows):
    run_program(LATE, rows)
    return explain_run(read_run(tmp_path / "run"))


def test_a_stable_program(run_program, tmp_path):
    explained = late(run_program, tmp_path, "2")
    assert str(explained.verdict).startswith(f"Stable: nothing compiled. {LATE_SAID}")
    assert not explained.has_problem


def test_a_program_that_recompiles_at_every_step(run_program, tmp_path):
    explained = late(run_program, tmp_path, "3 + k")
    (problem,) = [group for group in explained.groups if not group.expected]
    assert (problem.kind.id, problem.compiles) == ("input-shape", 9)
    assert str(explained.verdict).startswith("9 compiles beyond warm-up")
    assert LATE_SAID in str(explained.verdict)
    (first,) = [group for group in explained.groups if group.expected]
    assert "may be warm-up, or a problem" in str(first.title)


def test_one_graph_more_where_others_had_run_is_no_warm_up(run_program, tmp_path):
    explained = late(run_program, tmp_path, "7 if k == 2 else 2")
    (problem,) = explained.groups
    assert (problem.kind.id, problem.compiles) == ("unlike-graph", 1)
    assert "where others had run" in str(problem.title)
    assert explained.has_problem


def test_hits_of_earlier_graphs_are_not_taken_for_a_known_one(run_program, tmp_path):
    """Two graphs of one size: the one from before the capture is not mistaken for the other."""
    explained = late(run_program, tmp_path, "7 if k % 2 == 0 else 2")
    (node,) = explained.graphs
    assert node.compiles == 1
    assert node.hits <= 4, "of the nine hits four ran it"
    (process,) = explained.run.processes
    assert not any(sync.graphs for sync in process.syncs[1::2])
    assert "Stable" not in str(explained.verdict), "warm-up or a return: nothing tells"


SECOND = """
import torch, torch_xla, xlagraph
def step(rows):
    x = torch.ones(rows, device="xla").mul(3)
    torch_xla.sync()
with xlagraph.capture("first"):
    step(2)
with xlagraph.capture("second"):
    step(2)
    step(3)
"""


def test_a_second_capture_knows_what_the_first_has_seen(run_program, tmp_path):
    run_program(SECOND)
    run = read_run(tmp_path / "second")
    (process,) = run.processes
    assert [note.what for note in process.notes] == ["earlier compiles"]
    assert [sync.outcome for sync in process.syncs] == ["hit", "compile"]
    assert process.syncs[0].graphs == read_run(tmp_path / "first").digests()


AFTER_THE_LOOP = """
import torch, torch_xla
for k in range(6):
    x = torch.ones(k + 2, device="xla").mul(3).sum().exp().add(torch.ones(k + 2, device="xla"))
    torch_xla.sync()
y = torch.arange(6, device="xla").sqrt()
torch_xla.sync()
"""


def test_a_sync_after_the_loop_is_not_taken_for_training(run_program, tmp_path):
    run_program(AFTER_THE_LOOP, XLAGRAPH="1")
    explained = explain_run(read_run(tmp_path / "xlagraph-run"))
    assert str(explained.verdict).startswith("5 compiles beyond warm-up")


BUSY = """
import time
from xlagraph.capture.tensors import heap, keys, live
live._FREE_SECONDS, live._COMPILE_SHARE, keys.MAX_SECONDS = 0.3, 0.0, 0.05
find = heap.find
def slow(*kinds):
    time.sleep(0.1)  # other processes have the machine
    return find(*kinds)
heap.find = slow
read = keys.KeyReader.read
def slow_read(self, tensors):
    original = self._hash
    self._hash = lambda one: time.sleep(0.03) or original(one)
    try:
        return read(self, tensors)
    finally:
        self._hash = original
keys.KeyReader.read = slow_read
"""


def test_a_busy_machine_changes_nothing(run_program, tmp_path):
    """What is looked at is bounded by the work that it takes, not by the time that passes."""
    run_program(BUSY + LATE, "3 + k")
    explained = explain_run(read_run(tmp_path / "run"))
    (problem,) = [group for group in explained.groups if not group.expected]
    assert (problem.kind.id, problem.compiles) == ("input-shape", 9)
    (process,) = explained.run.processes
    assert {note.what for note in process.notes} == {"late", "earlier compiles"}
    assert all("-" not in dict(graph.key)["root_hashes"].split() for graph in process.graphs)
