"""Graphs that differ in what Python has drawn, told by their causes and the program's text."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from xlagraph.cause.verdict import Place
from xlagraph.facts.program.enclosing import ProgramText
from xlagraph.message import SourceLine
from xlagraph.rules.inputs.added_input import ADDED_INPUT
from xlagraph.rules.order.reordered_operands import REORDERED_OPERANDS
from xlagraph.rules.pieces.extra_subgraph import EXTRA_SUBGRAPH
from xlagraph.rules.pieces.other_operand import OTHER_OPERAND
from xlagraph.rules.pieces.replaced_subgraph import REPLACED_SUBGRAPH
from xlagraph.rules.shapes.sizes import PYTHON_INDEX
from xlagraph.rules.training.longer_backward import LONGER_BACKWARD
from xlagraph.runs.causes.drawn import drawn, left_in_turns
from xlagraph.runs.causes.draws import draws_around
from xlagraph.tensors import Role, Tensor

FILE = "t.py"
ENDS = SourceLine(FILE, 99, "train")
TURNS = """def forward(self, gold):
    for t in range(gold.size(1)):
        scores = self.step(token)
        coin = random.random() < self.ratio
        token = gold[:, t] if coin else scores.argmax(1)
    return scores
"""
STORE = """def query(self, images):
    out = []
    for image in images:
        if random.random() > 0.5:
            out.append(image)
        else:
            place = random.randrange(self.size)
            out.append(self.images[place])
            self.images[place] = self.images[place : place + 1]
    return torch.cat(out, 0)
"""


def program(text: str, *step_loops: int) -> ProgramText:
    lines = dict(enumerate(text.splitlines(), 1))
    return ProgramText({FILE: lines}, frozenset((FILE, loop) for loop in step_loops))


def causes(line: int, *kinds, function: str = "forward", tensors=()):
    """Graphs, each with a cause of one of these kinds on a line."""
    for kind in kinds:
        at = SourceLine(FILE, line, function)
        place = Place(at, (at,), tensors=tensors)
        name = f"{kind.id}:{line}"
        yield SimpleNamespace(digest=name, call_site=ENDS), SimpleNamespace(kind=kind, place=place)


def told(text: str, line: int, *, step_loops=(), kind=REPLACED_SUBGRAPH, **options):
    """What is said of many such graphs on a line of a text; None if each is told on its own."""
    many = [
        (SimpleNamespace(digest=str(k), call_site=ENDS), cause)
        for k, (_, cause) in enumerate(causes(line, *[kind] * 3, **options))
    ]
    found = set(drawn(many, program(text, *step_loops)).values())
    assert len(found) <= 1
    return next(iter(found), None)


def test_graphs_of_other_coins_in_the_turns_of_a_loop_are_one_reason():
    kinds = (REPLACED_SUBGRAPH, PYTHON_INDEX, EXTRA_SUBGRAPH)
    found = drawn(causes(5, *kinds), program(TURNS))
    assert len(found) == 3
    (one,) = set(found.values())
    assert (one.draw.line, one.loop.line) == (4, 2)
    others = {
        cause.kind for _, cause in causes(5, *kinds, REORDERED_OPERANDS) if one.accounts_for(cause)
    }
    assert others == set(kinds)


@pytest.mark.parametrize(
    ("kinds", "is_beside"),
    [((REPLACED_SUBGRAPH, EXTRA_SUBGRAPH), True), ((PYTHON_INDEX, REORDERED_OPERANDS), False)],
)
def test_pieces_of_the_same_turns_belong_to_their_coins(kinds, is_beside):
    """Line 3 always runs: a piece of it is another turn's, in the backward pass for example."""
    own = [*causes(5, REPLACED_SUBGRAPH, PYTHON_INDEX, EXTRA_SUBGRAPH)]
    beside = [*causes(3, *kinds)]
    found = drawn([*own, *beside], program(TURNS))
    assert len(found) == 3 + 2 * is_beside
    assert len(set(found.values())) == 1
    assert drawn(causes(3, *kinds), program(TURNS)) == {}


def test_pieces_that_other_steps_or_lines_before_the_loop_make_are_not_drawn():
    own = [*causes(5, REPLACED_SUBGRAPH, PYTHON_INDEX, EXTRA_SUBGRAPH)]
    ((other, cause),) = causes(3, EXTRA_SUBGRAPH)
    other.call_site = ENDS._replace(line=50)
    before = [*causes(1, EXTRA_SUBGRAPH)]
    assert len(drawn([*own, (other, cause), *before], program(TURNS))) == 3


@pytest.mark.parametrize(
    ("lines", "ends", "is_of_draw"),
    [
        ((3, 5), ENDS, True),
        ((3,), ENDS, False),
        ((1, 5), ENDS, False),
        ((), ENDS, False),
        ((3, 5), ENDS._replace(line=50), False),
    ],
    ids=["turns", "not drawn", "before the loop", "unknown", "other steps"],
)
def test_what_no_cause_explains_is_of_the_draw_whose_turns_it_stands_in(lines, ends, is_of_draw):
    own = [*causes(5, REPLACED_SUBGRAPH, PYTHON_INDEX, EXTRA_SUBGRAPH)]
    known = drawn(own, program(TURNS))
    places = [cause.place for line in lines for _, cause in causes(line, EXTRA_SUBGRAPH)]
    backward = SourceLine(FILE, 3, "forward", backward_of="addmm")
    places += [Place(backward)] if lines else []
    left = SimpleNamespace(
        digest="left", call_site=ends, explanation=SimpleNamespace(left_at=places)
    )
    found = left_in_turns([node for node, _ in own], known, [left])
    assert set(found) == ({"left"} if is_of_draw else set())


def unexplained(name: str, *lines: int) -> SimpleNamespace:
    places = [cause.place for line in lines for _, cause in causes(line, EXTRA_SUBGRAPH)]
    left = SimpleNamespace(left_at=places)
    return SimpleNamespace(digest=name, call_site=ENDS, explanation=left)


BRANCHES = """def forward(self, target):
    for t in range(8):
        q = self.step(value)
        if random.random() < self.ratio:
            value = target[:, t]
        else:
            value = q.detach()
        if self.scale:
            q = q * self.scale
"""


def test_coins_of_several_turns_are_told_where_no_graph_shows_a_single_one():
    left = [unexplained("a", 5, 7), unexplained("b", 7), unexplained("c", 5)]
    found = drawn([], program(BRANCHES), left)
    assert set(found) == {"a", "b", "c"}
    (one,) = set(found.values())
    assert (one.draw.line, one.loop.line) == (4, 2)
    cause = one.alone(left)
    assert (cause.kind, cause.proved, cause.place.line) == (OTHER_OPERAND, False, one.draw)
    assert not drawn([], program(BRANCHES), left[:2])  # too few


@pytest.mark.parametrize(
    "lines",
    [(5, 3), (5, 9), (9,), ()],
    ids=["turn", "another condition", "no draw", "unknown"],
)
def test_what_is_left_elsewhere_tells_of_no_coin(lines):
    left = [unexplained(name, *lines) for name in "abcd"]
    assert not drawn([], program(BRANCHES), left)


@pytest.mark.parametrize(
    ("text", "line"),
    [
        (TURNS.replace("random.random() < self.ratio", "self.rng.random() < 0.5"), 5),
        (TURNS.replace("random.random() < self.ratio", "torch.rand(1).item() < 0.5"), 5),
        ("def f(x, p):\n    for t in x:\n        if torch.rand(1) < p:\n            y = g(t)\n", 4),
        ("coins = [random.random() for _ in x]\nfor t in x:\n    y = g(t) if coins[t] else y\n", 3),
        (
            "c = random.choices(x)\nfor t, c in enumerate(c):\n    y = y[t] if c else z\n",
            3,
        ),
        ("for t in x:\n    u = random.random()\n    use = u < p\n    y = g(t) if use else y\n", 4),
        (
            "for t in x:\n    if random.random() < p:\n        pass\n    else:\n        y = g(t)\n",
            5,
        ),
    ],
    ids=["generator", "torch", "tensor", "list", "in turn", "compared", "else"],
)
def test_coins_are_drawn_and_asked_in_many_ways(text, line):
    assert told(text, line)
    assert told(text, line, kind=PYTHON_INDEX)


ONCE = "use = random.random() < p\nfor t in x:\n    y = g(t) if use else y\n"
AROUND = "if random.random() < p:\n    for t in x:\n        y = g(t)\n"
GIVEN = "for t in x:\n    y = g(t) if coins[t] else y\n"
CROP = """for _ in range(2):
    if random.random() < 0.5:
        start = random.randrange(8)
        x = x[:, start : start + 16]
"""
STEPS = "for x in batches:\n    if random.random() < p:\n        loss = loss + extra(x)\n"


@pytest.mark.parametrize(
    ("text", "line", "options"),
    [
        (ONCE, 3, {}),
        (AROUND, 3, {}),
        (GIVEN, 2, {}),
        (CROP, 4, {"kind": PYTHON_INDEX}),
        (STEPS, 3, {"step_loops": [1]}),
        (TURNS, 5, {"kind": REORDERED_OPERANDS}),
        (TURNS, 3, {}),
    ],
    ids=["one draw", "around the loop", "no draw", "a crop", "a coin a step", "order", "no choice"],
)
def test_other_branches_keep_their_own_reasons(text, line, options):
    assert told(text, line, **options) is None


def test_two_graphs_are_no_pattern():
    assert drawn(causes(5, REPLACED_SUBGRAPH, PYTHON_INDEX), program(TURNS)) == {}


def test_what_a_store_gives_out_is_one_reason_with_the_order_that_it_is_joined_in():
    found = drawn(
        [
            *causes(8, ADDED_INPUT, function="query"),
            *causes(9, ADDED_INPUT, function="query"),
            *causes(10, REORDERED_OPERANDS, function="query"),
            *causes(3, PYTHON_INDEX, function="query"),
            *causes(9, PYTHON_INDEX, function="query"),
            *causes(10, REPLACED_SUBGRAPH, function="query"),
        ],
        program(STORE),
    )
    assert set(found) == {
        "added-input:8",
        "added-input:9",
        "reordered-operands:10",
        "python-index:3",
    }
    (one,) = set(found.values())
    assert (one.draw.line, one.loop) == (7, None)


def test_a_store_is_told_where_all_that_is_drawn_shows_where_the_list_is_joined():
    (one,) = {told(STORE, 10, kind=ADDED_INPUT, function="query")}
    assert (one.draw.line, one.loop) == (7, None)
    once = STORE.replace("torch.cat(out, 0)", "torch.cat(images)[random.randrange(8)]")
    assert told(once, 10, kind=ADDED_INPUT, function="query").draw.line == 10
    other = STORE.replace("torch.cat(out, 0)", "torch.cat(others, 0)")
    assert told(other, 10, kind=ADDED_INPUT, function="query") is None


@pytest.mark.parametrize(
    "line",
    [
        "old = random.choice(self.images)",
        "old = self.images[random.randrange(8)]",
        "old = self.images.pop(random.randrange(8))",
    ],
)
def test_a_draw_may_stand_where_it_is_taken(line):
    assert told(f"def query(self):\n    {line}\n", 2, kind=ADDED_INPUT)


@pytest.mark.parametrize(
    ("line", "options"),
    [
        ("old = self.images[self.next]", {}),
        ("new = image * random.uniform(0.5, 1.5)", {}),
        ("old = random.choice(self.images)", {"kind": REORDERED_OPERANDS}),
        (
            "new = random.choice(self.experts)(x)",
            {"tensors": (Tensor("experts.1", "weight", Role.PARAMETER),)},
        ),
    ],
    ids=["in turn", "a factor", "order alone", "weights"],
)
def test_other_inputs_keep_their_own_reasons(line, options):
    assert told(f"def query(self):\n    {line}\n", 2, **{"kind": ADDED_INPUT} | options) is None


def test_a_function_is_known_over_small_gaps_up_to_its_head_and_the_next():
    lines = dict(enumerate(f"def before():\n    a = 1\n\n{STORE}\nx = 2\n".splitlines(), 1))
    del lines[7]
    assert set(draws_around(lines, 8).lines) == {*range(5, 15)} - {7}
    far = {1: "    place = random.randrange(8)", 6: "    old = images[place]"}
    assert set(draws_around(far, 6).lines) == {6}


GUARD = """def forward(self, x):
    if self.training and random.random() > self.survival:
        {body}
    y = self.norm(x)
    return x + self.branch(y)
"""


@pytest.mark.parametrize(
    ("text", "line"),
    [
        (GUARD.format(body="return x"), 2),
        (GUARD.replace(":\n        {body}", ": return x"), 2),
        (GUARD.format(body="x = x / 2"), None),  # what is behind runs all the same
        (GUARD.format(body="return x").replace("random.random()", "self.depth"), None),
    ],
)
def test_a_draw_that_leaves_the_function_decides_what_is_behind_it(text, line):
    lines = dict(enumerate(text.splitlines(), 1))
    last = max(lines)
    draw = draws_around(lines, last).decides(last)
    assert (draw and draw.line) == line


@pytest.mark.parametrize(
    ("text", "picked", "line"),
    [
        (TURNS, 5, 4),
        (TURNS.replace("coin = random.random() < self.ratio", "coin = t > 3"), 5, None),
        (TURNS, 3, None),
    ],
    ids=["drawn", "not drawn", "what always runs"],
)
def test_gradients_that_flow_on_through_what_is_drawn_are_no_reason_of_their_own(
    text, picked, line
):
    """Each graph says how gradients flow further first, and what was picked behind that."""
    known = []
    for k in range(3):
        for _, cause in [*causes(3, LONGER_BACKWARD), *causes(picked, OTHER_OPERAND)]:
            known.append((SimpleNamespace(digest=str(k), call_site=ENDS), cause))
    found = set(drawn(known, program(text)).values())
    assert {one.draw.line for one in found} == ({line} if line else set())
    assert all(one.accounts_for(cause) for one in found for _, cause in known)


def test_what_another_draw_decides_in_the_same_loop_is_no_piece_of_these_turns():
    two = TURNS.replace(
        "    return", "        if rng.random() < 0.1:\n            h = 2 * h\n    return"
    )
    ((_, other),) = causes(7, EXTRA_SUBGRAPH)
    (one,) = set(
        drawn(causes(5, *[REPLACED_SUBGRAPH, PYTHON_INDEX, EXTRA_SUBGRAPH]), program(two)).values()
    )
    assert not one.accounts_for(other)
    ((_, pieces),) = causes(3, EXTRA_SUBGRAPH)
    assert one.accounts_for(pieces)
