"""Graphs that a loop's other number of turns accounts for, of which two are enough."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from xlagraph.cause.verdict import Place
from xlagraph.facts.program.enclosing import ProgramText
from xlagraph.message import SourceLine
from xlagraph.rules.pieces.extra_subgraph import EXTRA_SUBGRAPH
from xlagraph.runs.causes.growth import loops_that_read, uneven_loops
from xlagraph.runs.model import Meant

TEXT = """def adapt(fast, steps):
    for _ in range(steps):
        fast = descend(fast)
    return fast
"""
PROGRAM = ProgramText({"t.py": dict(enumerate(TEXT.splitlines(), 1))})
SITE = SourceLine("t.py", 40, "main")


def graph(digest: str, instructions: int, line: SourceLine | None):
    causes = []
    if line:
        place = Place(line, (line,))
        causes = [SimpleNamespace(kind=EXTRA_SUBGRAPH, lines=(line,), place=place)]
    explanation = SimpleNamespace(causes=causes) if causes else None
    own = {"digest": digest, "instructions": instructions, "nearest": "a", "call_site": SITE}
    return SimpleNamespace(
        **own, warm_up=line is None, meant=Meant.NOT, explanation=explanation, sync_kind="step"
    )


@pytest.mark.parametrize(("backward_of", "are_turns"), [("", True), ("addmm", False)])
def test_two_graphs_are_a_loops_turns_where_its_own_operations_are_more(backward_of, are_turns):
    """A backward pass that is derived again has more derivatives, and as many turns."""
    line = SourceLine("t.py", 3, "adapt", backward_of=backward_of)
    nodes = [graph("a", 100, None), graph("b", 150, line), graph("c", 200, line)]
    assert bool(uneven_loops(nodes, PROGRAM, frozenset())) == are_turns


READS = """for step, batch in enumerate(loader):
    train(batch)
    xm.mark_step()
    scores = {k: v.item() for k, v in metrics.compute().items()}
    for task in tasks:
        print(heads[task](batch).item())
"""
READING = ProgramText({"t.py": dict(enumerate(READS.splitlines(), 1))}, frozenset({("t.py", 1)}))


def test_a_comprehension_that_reads_never_ends_by_that():
    read = (
        SimpleNamespace(sync_kind="value", call_site=SourceLine("t.py", line, "main"))
        for line in (4, 6)
    )
    assert [loop.line for loop in loops_that_read(list(read), READING)] == [5]
