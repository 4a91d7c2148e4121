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
from xlagraph.rules.shapes.sizes import INPUT_SHAPE, PYTHON_INDEX, PYTHON_SIZE
from xlagraph.runs.causes.conditions import decided, read_in_turns
from xlagraph.runs.causes.drawn import left_in_turns

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


def test_graphs_in_which_several_turns_fell_otherwise_belong_to_the_condition():
    """One turn for and one against: no single piece leads to a cause."""
    known = list(graphs(6, 4, 4))
    told = decided(known, program(UNROLL))
    left = [
        SimpleNamespace(
            digest=digest,
            call_site=ends,
            explanation=SimpleNamespace(
                left_at=[Place(SourceLine(FILE, line, "unroll")) for line in lines]
            ),
        )
        for digest, ends, lines in (
            ("in", ENDS, (4, 6)),
            ("before", ENDS, (2, 6)),
            ("elsewhere", None, (4, 6)),
            ("nowhere", ENDS, ()),
        )
    ]
    assert set(left_in_turns([node for node, _ in known], told, left)) == {"in"}


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


LOVASZ = """def lovasz(probas, labels):
    losses = []
    for c in range(probas.size(1)):
        own = (labels == c).float()
        if own.sum() == 0:
            continue
        errors = (own - probas[:, c]).abs()
        losses.append(errors.sort().values.dot(own))
    return torch.stack(losses).mean()
"""
NAMED = LOVASZ.replace("if own.sum() == 0:", "empty = own.sum().item() == 0\n        if empty:")
GUARDED = """def lovasz(probas, labels):
    losses = []
    for c in range(probas.size(1)):
        own = (labels == c).float()
        if own.sum() > 0:
            errors = (own - probas[:, c]).abs()
            losses.append(errors)
    return torch.stack(losses).mean()
"""


def told(*lines: int, kind=PYTHON_INDEX, read=5, also=()):
    """A read on a line of ``lovasz``, and graphs with a cause on each of these lines of it."""
    yield SimpleNamespace(
        digest="read",
        sync_kind="value",
        call_site=SourceLine(FILE, read, "lovasz"),
        explanation=None,
    )
    for k, line in enumerate(lines):
        at = SourceLine(FILE, line, "lovasz")
        causes = [SimpleNamespace(kind=one, place=Place(at, (at,))) for one in (kind, *also)]
        explanation = SimpleNamespace(causes=causes)
        yield SimpleNamespace(
            digest=f"{line}.{k}", sync_kind="step", call_site=ENDS, explanation=explanation
        )


@pytest.mark.parametrize(
    ("text", "read", "lines"),
    [(LOVASZ, 5, (7, 8, 7)), (NAMED, 5, (8, 9, 8)), (GUARDED, 5, (6, 7, 7))],
    ids=["goes on", "by a name", "in the branch"],
)
def test_turns_that_a_read_value_leaves_out_belong_to_the_read(text, read, lines):
    nodes = list(told(*lines, read=read))
    found = read_in_turns(nodes, nodes, program(text))
    assert set(found) == {f"{line}.{k}" for k, line in enumerate(lines)}
    (one,) = set(found.values())
    assert (one.read.line, one.loop.line) == (read, 3)
    behind = SimpleNamespace(kind=PYTHON_SIZE, place=Place(SourceLine(FILE, 12, "train")))
    assert one.accounts_for(behind)
    assert not one.shows_in(behind)


@pytest.mark.parametrize(
    ("nodes", "text"),
    [
        (told(7, 8), program(LOVASZ)),
        (told(4, 4, 4), program(LOVASZ)),
        (told(7, 8, 7, kind=INPUT_SHAPE, also=(PYTHON_INDEX,)), program(LOVASZ)),
        (told(7, 8, 7), program(LOVASZ, 3)),
        (told(7, 8, 7), program(LOVASZ.replace("continue", "break"))),
        (told(7, 8, 7, read=7), program(LOVASZ)),
        (told(8, 8, 8), program(GUARDED)),
        (told(7, 8, 7), program(LOVASZ.replace("for c in range(probas.size(1))", "while more"))),
    ],
    ids=[
        *("two", "before", "a size", "loop of steps", "ends the loop", "no condition", "behind"),
        "any number of turns",
    ],
)
def test_other_graphs_are_not_of_the_read(nodes, text):
    every = list(nodes)
    assert read_in_turns(every, every, text) == {}
