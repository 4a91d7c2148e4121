"""A loop whose turns are left out in some steps, and have other numbers in others."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from xlagraph.cause.model import Cause
from xlagraph.cause.verdict import Place
from xlagraph.facts.program.enclosing import ProgramText
from xlagraph.message import EMPTY, SourceLine, say
from xlagraph.rules.numbers.constant_value import CONSTANT_VALUE
from xlagraph.rules.numbers.scalar_argument import SPECIAL_SCALAR
from xlagraph.rules.order.reordered_sum import REORDERED_SUM
from xlagraph.rules.pieces.extra_subgraph import EXTRA_SUBGRAPH
from xlagraph.rules.shapes.sizes import PYTHON_INDEX, PYTHON_SIZE
from xlagraph.runs.causes.uneven_turns import uneven_turns

TEXT = """def balanced(values, labels, counts):
    total = 0.0
    for c in range(CLASSES):
        if counts[c] == 0:
            continue
        mine = (labels == c).float()
        total = total + (values * mine).sum() / counts[c]
    return total / len(counts)
def train(batches):
    for x, y in batches:
        step(balanced(x, y, counted(y)))
"""
FILE = "t.py"
LINES = dict(enumerate(TEXT.splitlines(), 1))
PROGRAM = ProgramText({FILE: LINES}, frozenset({(FILE, 10)}))
NO_ONE = frozenset[int]()
MIXED = (SPECIAL_SCALAR, REORDERED_SUM, EXTRA_SUBGRAPH, SPECIAL_SCALAR)


def causes(kinds, *lines: int):
    """Graphs with a cause of each kind, at these lines in turn."""
    for number, kind in enumerate(kinds):
        line = lines[number % len(lines)]
        stack = (SourceLine(FILE, line, "balanced"), SourceLine(FILE, 11, "train"))
        cause = SimpleNamespace(kind=kind, place=Place(stack[0], stack))
        yield SimpleNamespace(digest=str(number)), cause


def test_pieces_numbers_and_orders_of_one_loop_are_one_reason():
    found = uneven_turns(causes(MIXED, 6, 7), PROGRAM)
    assert set(found) == {"0", "1", "2", "3"}
    (one,) = set(found.values())
    assert one.loop == SourceLine(FILE, 3, "balanced")
    inside, behind = (next(causes([CONSTANT_VALUE], line))[1] for line in (6, 8))
    assert one.accounts_for(inside)
    assert not one.accounts_for(behind)


@pytest.mark.parametrize(
    ("head", "is_found"),
    [
        ("for c in labels.unique().tolist():", True),
        ("for c in sorted(set(names)):", True),
        ("for c in range(CLASSES):", False),
        ("for c in self.heads:", False),
    ],
)
def test_a_loop_over_values_of_the_data_has_a_fix_of_its_own(head, is_found):
    """The value is an index too: of another set of values each turn takes another place."""
    lines = {**LINES, 3: "    " + head}
    program = ProgramText({FILE: lines}, frozenset({(FILE, 10)}))
    kinds = (PYTHON_INDEX, EXTRA_SUBGRAPH, PYTHON_INDEX, CONSTANT_VALUE)
    (one,) = set(uneven_turns(causes(kinds, 6, 7), program).values())
    cause = Cause(EXTRA_SUBGRAPH, say("a"), (), EMPTY, 1, True, EMPTY, False, NO_ONE, NO_ONE)
    said = one(cause, [None] * 4)
    assert ("Go over all values" in str(said.short_fix)) == is_found
    assert ("found in the data" in str(said.title)) == is_found
    assert said.place.line == SourceLine(FILE, 3, "balanced")


@pytest.mark.parametrize(
    ("kinds", "line", "program"),
    [
        (MIXED[:3], 7, PROGRAM),
        ([SPECIAL_SCALAR] * 6, 7, PROGRAM),
        ([PYTHON_INDEX, CONSTANT_VALUE] * 3, 7, PROGRAM),
        ([*MIXED[:2], PYTHON_SIZE, PYTHON_SIZE], 7, PROGRAM),
        (MIXED, 8, PROGRAM),
        (MIXED, 7, ProgramText({FILE: LINES}, frozenset({(FILE, 3)}))),
        (MIXED, 7, ProgramText()),
    ],
    ids=[
        "too few",
        "one sort",
        "an index",
        "sizes",
        "behind the loop",
        "a loop of steps",
        "no text",
    ],
)
def test_others_keep_their_own_reasons(kinds, line, program):
    assert uneven_turns(causes(kinds, line), program) == {}
