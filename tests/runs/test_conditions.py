"""Graphs that differ in what a condition decides in each turn of a loop, told by their causes."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from xlagraph.cause.verdict import Place
from xlagraph.facts.program.enclosing import ProgramText
from xlagraph.message import SourceLine
from xlagraph.rules.numbers.constant_value import CONSTANT_VALUE
from xlagraph.rules.pieces.extra_subgraph import EXTRA_SUBGRAPH
from xlagraph.rules.pieces.replaced_subgraph import REPLACED_SUBGRAPH
from xlagraph.runs.causes.conditions import decided

FILE = "t.py"
ENDS = SourceLine(FILE, 99, "train")
UNROLL = """def unroll(self, x, dones, h):
    z = self.embed(x)
    for t in range(x.size(0)):
        h = self.cell(z[t], h)
        if dones[t]:
            h = torch.zeros_like(h)
    return self.head(h)
"""


def program(text: str, *step_loops: int) -> ProgramText:
    lines = dict(enumerate(text.splitlines(), 1))
    return ProgramText({FILE: lines}, frozenset((FILE, loop) for loop in step_loops))


def graphs(*lines: int, kind=REPLACED_SUBGRAPH, ends=ENDS):
    """Graphs, each with a cause on one of these lines of ``unroll``."""
    for k, line in enumerate(lines):
        at = SourceLine(FILE, line, "unroll")
        node = SimpleNamespace(digest=f"{line}.{k}", call_site=ends)
        yield node, SimpleNamespace(kind=kind, place=Place(at, (at,)))


def test_pieces_of_the_turns_belong_to_the_condition_that_one_of_them_shows():
    called = SourceLine(FILE, 40, "forward")
    inner = SimpleNamespace(digest="inner", call_site=ENDS)
    stack = (called, SourceLine(FILE, 4, "unroll"))
    cause = SimpleNamespace(kind=EXTRA_SUBGRAPH, place=Place(called, stack))
    found = decided([*graphs(6, 4), (inner, cause)], program(UNROLL))
    assert set(found) == {"6.0", "4.1", "inner"}
    (one,) = set(found.values())
    assert (one.branch.line, one.loop.line) == (5, 3)


@pytest.mark.parametrize(
    ("known", "text"),
    [
        (graphs(6, 4), program(UNROLL)),
        (graphs(4, 4, 4), program(UNROLL)),
        (graphs(6, 2, 2), program(UNROLL)),
        (graphs(6, 4, 4), program(UNROLL, 3)),
        (graphs(6, 4, 4, kind=CONSTANT_VALUE), program(UNROLL)),
        ([*graphs(6), *graphs(4, 4, ends=ENDS._replace(line=50))], program(UNROLL)),
        (graphs(6, 4, 4), program(UNROLL.replace("if dones[t]:", "with torch.no_grad():"))),
    ],
    ids=["two", "no condition", "before", "loop of steps", "a number", "other steps", "no branch"],
)
def test_other_graphs_keep_their_own_reasons(known, text):
    assert decided(known, text) == {}
