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
from xlagraph.runs.causes.uneven_turns import recursions, uneven_turns

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
        cause = SimpleNamespace(kind=kind, place=Place(stack[0], stack), title=EMPTY)
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
    said = one(cause, [SimpleNamespace(instructions=size) for size in (8, 9, 8, 9)])
    assert ("Go over all values" in str(said.short_fix)) == is_found
    assert ("found in the data" in str(said.title)) == is_found
    assert said.place.line == SourceLine(FILE, 3, "balanced")


SOLVED = """def solve(state, t0, t1):
    n_steps = math.ceil((t1 - t0) / H)
    for _ in range(n_steps):
        k1 = slope(state)
        state = state + k1
    return state
def slope(state):
    return net(state)
def forward(state, times):
    states = [solve(state, a, b) for a, b in pairs(times)]
    return torch.stack(states)
"""


def test_what_turns_call_and_what_takes_them_in_goes_with_a_loop_of_so_many_turns():
    program = ProgramText({FILE: dict(enumerate(SOLVED.splitlines(), 1))}, frozenset({(FILE, 20)}))
    turn, outer = SourceLine(FILE, 5, "solve"), SourceLine(FILE, 10, "forward")

    def node(number, kind, *stack, title=EMPTY):
        place = Place(stack[0], stack)
        return (
            SimpleNamespace(digest=str(number)),
            SimpleNamespace(kind=kind, place=place, title=title),
        )

    called = (SourceLine(FILE, 8, "slope"), SourceLine(FILE, 4, "solve"), outer)
    stacked = SourceLine(FILE, 11, "forward")
    found = uneven_turns(
        [
            *(node(k, kind, turn, outer) for k, kind in enumerate(MIXED)),
            node(4, EXTRA_SUBGRAPH, *called),
            node(5, EXTRA_SUBGRAPH, stacked, title=say("stack takes the result of add", turn)),
            node(6, EXTRA_SUBGRAPH, stacked),
        ],
        program,
    )
    assert set(found) == {"0", "1", "2", "3", "4", "5"}
    (one,) = set(found.values())
    cause = Cause(EXTRA_SUBGRAPH, say("a"), (), EMPTY, 1, True, EMPTY, False, NO_ONE, NO_ONE)
    for sizes, words in (((8, 9), "of turns: n_steps"), ((8, 8), "have other numbers")):
        said = one(cause, [SimpleNamespace(instructions=size) for size in sizes])
        assert str(said.short).endswith(words)


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


NESTED = """class Dense:
    def forward(self, x):
        return self.norm(x)
class Tower:
    def forward(self, x):
        return self.dense(x)
"""
TREE = """class Tree:
    def forward(self, node):
        if node.leaf:
            return self.embed(node.word)
        return self.join(*[self.forward(one) for one in node.children])
"""


@pytest.mark.parametrize(
    ("text", "inner", "outer", "is_found"),
    [(NESTED, 3, 6, False), (TREE, 4, 5, True), ("", 4, 5, False)],
    ids=["layers within layers", "a tree", "not stored"],
)
def test_a_function_calls_itself_where_both_frames_are_of_one_function(
    text, inner, outer, is_found
):
    program = ProgramText({FILE: dict(enumerate(text.splitlines(), 1))})
    stack = tuple(SourceLine(FILE, line, "forward") for line in (inner, outer))
    cause = SimpleNamespace(kind=EXTRA_SUBGRAPH, place=Place(stack[0], stack), title=EMPTY)
    told = [(SimpleNamespace(digest=str(k)), cause) for k in range(4)]
    found = recursions(told, program)
    assert bool(found) == is_found
    assert all(one.call == stack[1] for one in found.values())
