"""Reads within a step, of which each computes more than the one before."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
from written_runs import write

from xlagraph.cause.verdict import Place
from xlagraph.facts.program.enclosing import ProgramText
from xlagraph.message import SourceLine, say
from xlagraph.rules.dtypes.dtype import DTYPE
from xlagraph.rules.pieces.extra_subgraph import EXTRA_SUBGRAPH
from xlagraph.runs.causes.pending import PendingWork, left_of_turns

READ, END = 12, 20


def graph(turns, *, read):
    """What is pending after some turns of a loop: a running sum, and in a read the value too."""
    lines = "".join(f"  %s{k + 1} = f32[4]{{0}} add(%s{k}, %x)\n" for k in range(turns))
    value = f"  ROOT %v = f32[4]{{0}} tanh(%s{turns})\n" if read else ""
    root = "" if read else f"  ROOT %c = f32[4]{{0}} copy(%s{turns})\n"
    return (
        "HloModule m\n\nENTRY %main (s: f32[4], x: f32[4]) -> f32[4] {\n"
        "  %s0 = f32[4]{0} parameter(0)\n  %x = f32[4]{0} parameter(1)\n"
        f"{lines}{value}{root}}}\n"
    )


def episode(length):
    """Reads of one step, and its end."""
    reads = [(READ, graph(k + 1, read=True), "value") for k in range(length)]
    return [*reads, (END, graph(length, read=False))]


def explained(folder, lengths):
    return write(folder, [sync for length in lengths for sync in episode(length)])


def test_work_that_stays_pending_between_reads_is_one_cause(tmp_path):
    run = explained(tmp_path, (5, 3, 7, 4, 9, 6))
    (problem,) = run.problems
    assert problem.kind.id == "growing-graph"
    assert problem.compiles == 8 + 5, "all reads but the smallest, and all ends but the first"
    assert str(problem.title) == (
        "values are read again and again before the step ends at train.py:12 in main(), and what "
        "is pending grows from read to read, by 1 instruction each time: 13 graphs, one for each "
        "number of reads; 5 of them are what was left as the step ended"
    )
    assert (problem.place.line.line, problem.further) == (READ, ())
    assert str(run.verdict.fix) == "Call torch_xla.sync() in each turn of the loop that reads."


def test_as_many_reads_in_every_step_compile_once(tmp_path):
    assert not explained(tmp_path, (5,) * 6).has_problem


def test_reads_that_are_computed_one_by_one_do_not_grow(tmp_path):
    """A sync in each turn: what is read is all that is pending."""
    turn = [(READ, graph(1, read=True), "value"), (END, graph(1, read=False))]
    assert not write(tmp_path, turn * 12).has_problem


def test_a_program_of_one_step_that_reads_ever_more_lacks_a_sync(tmp_path):
    """No read is like the one before, as the work of several turns lies between."""
    lengths = (1, 2, 3, 7, 12, 16, 21)
    run = write(tmp_path, [(READ, graph(length, read=True), "value") for length in lengths])
    (problem,) = run.problems
    assert problem.kind.id == "growing-graph"
    assert problem.compiles == len(lengths) - 1
    assert str(problem.title).endswith(
        "what is pending grows from read to read: 6 graphs, one for each number of reads"
    )
    assert str(run.verdict.fix) == "Call torch_xla.sync() in each turn of the loop that reads."


def test_a_few_reads_of_one_step_are_set_up(tmp_path):
    run = write(tmp_path, [(READ, graph(length, read=True), "value") for length in (1, 2, 3, 7)])
    assert not run.has_problem
    unlike = (3, 9, 1, 5, 7, 2, 8)
    run = write(tmp_path / "b", [(READ, graph(k, read=True), "value") for k in unlike])
    assert not run.has_problem


TEXT = """def solve(x):
    for _ in range(MOST):
        x = turn(x)
        if moved(x) < TOL:
            break
    return head(x)
"""
PROGRAM = ProgramText({"t.py": dict(enumerate(TEXT.splitlines(), 1))})


def ended(line, kind=EXTRA_SUBGRAPH, *, taken=6, **other):
    """A graph that differs in a piece at some line of the function, and in what it takes in."""
    stack = (SourceLine("t.py", line, "solve"),)
    title = say("dot takes the result of ", SourceLine("t.py", taken, "solve"))
    cause = SimpleNamespace(kind=kind, place=Place(stack[0], stack), title=title)
    explanation = SimpleNamespace(causes=[cause])
    node = {"digest": "a", "sync_kind": "step", "warm_up": False, "explanation": explanation}
    return SimpleNamespace(**node | other)


@pytest.mark.parametrize(
    ("node", "is_told"),
    [
        (ended(3), True),
        (ended(6, taken=3), True),
        (ended(6), False),
        (ended(3, DTYPE), False),
        (ended(3, warm_up=True), False),
        (ended(3, sync_kind="value"), False),
    ],
    ids=["a turn", "what a turn gives", "behind the loop", "no piece", "warm-up", "a read"],
)
def test_ends_of_steps_with_more_turns_belong_to_the_read_that_ends_the_loop(node, is_told):
    """They lie further apart than the reads: a backward pass goes through each turn."""
    work = PendingWork("z", frozenset("b"), SourceLine("t.py", 4, "solve"), 29)
    assert left_of_turns(work, [node], PROGRAM) == (frozenset("a") if is_told else frozenset())
    behind = PendingWork("z", frozenset("b"), SourceLine("t.py", 6, "solve"), 29)
    assert not left_of_turns(behind, [node], PROGRAM)
