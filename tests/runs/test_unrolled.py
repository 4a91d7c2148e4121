"""Graphs that hold another number of a loop's turns each."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from xlagraph.cause.model import Cause
from xlagraph.cause.verdict import Place
from xlagraph.facts.program.enclosing import ProgramText
from xlagraph.message import EMPTY, GraphName, SourceLine, say
from xlagraph.rules.dtypes.dtype import DTYPE
from xlagraph.rules.inputs.added_input import ADDED_INPUT
from xlagraph.rules.numbers.shared_scalar import SHARED_SCALAR
from xlagraph.rules.shapes.sizes import INPUT_SHAPE
from xlagraph.rules.training.repeated_pass import ACCUMULATION_COUNT, MISSING_BARRIER
from xlagraph.run.records import Frame
from xlagraph.runs.causes.unrolled import AsUnrolled, unrolled_loops
from xlagraph.runs.compare import Comparison
from xlagraph.runs.nodes import _has_other_turns

TEXT = """def train(batches):
    for x, y in batches:
        loss_fn(model(x), y).backward()
        optimizer.step()
    torch_xla.sync()
for client in clients:
    train(client)
def one(x, y):
    loss_fn(model(x), y).backward()
"""
FILE = "t.py"
CAUSE = Cause(DTYPE, say("a"), (), EMPTY, 1.0, True, EMPTY, False, frozenset(), frozenset())
LINES = dict(enumerate(TEXT.splitlines(), 1))
CALL = SourceLine(FILE, 7, "<module>")
BACKWARD, STEP = ((SourceLine(FILE, line, "train"), CALL) for line in (3, 4))
BEHIND = (SourceLine(FILE, 5, "train"), CALL)
HELPER = (SourceLine(FILE, 9, "one"), CALL)
PROGRAM = ProgramText({FILE: LINES}, frozenset({(FILE, 6)}))


def loops(turns, program=PROGRAM, *, call=BACKWARD, step=STEP, times=None, site=()):
    """The loops of graphs in which backward is called so many times, and an optimizer, too."""
    process = SimpleNamespace(file="records-0.jsonl")
    sync = SimpleNamespace(entry="sync", call_site=("t.py", 5), ends_step=True)
    graphs = [
        SimpleNamespace(
            process=process,
            sync=sync,
            sketch=SimpleNamespace(
                passes=((call, number),) if number else (),
                updates=((step, 30 * (times or number)),),
            ),
            record=SimpleNamespace(digest=str(k)),
            site=site,
        )
        for k, number in enumerate(turns)
    ]
    return unrolled_loops(graphs, program)


def nodes(kinds, line=BACKWARD):
    """Graphs of a run, each with a cause of a kind at a line; None: warm-up, "": no cause."""
    for k, kind in enumerate(kinds):
        cause = SimpleNamespace(kind=kind, place=Place(line[0], line), lines=line[:1])
        told = SimpleNamespace(causes=(cause,) if kind else (), same=False)
        yield SimpleNamespace(
            digest=str(k),
            letter="ABCDEF"[k],
            warm_up=kind is None,
            explanation=None if kind is None else told,
        )


def members(turns, kinds, line=BACKWARD):
    (loop,) = loops(turns)
    return AsUnrolled(loop, tuple(nodes(kinds, line)), PROGRAM).members()


def test_the_innermost_loop_around_the_backward_pass_is_unrolled():
    (loop,) = loops([2, 3, 1])
    assert loop == (SourceLine(FILE, 2, "train"), {"0": 2, "1": 3, "2": 1}, True)
    assert AsUnrolled(loop, (), PROGRAM).kind is MISSING_BARRIER
    for summed in (*loops([2, 3, 1], step=BEHIND), *loops([2, 3, 1], times=1)):
        assert AsUnrolled(summed, (), PROGRAM).kind is ACCUMULATION_COUNT, "one step for all passes"


def test_a_loop_of_steps_counts_where_the_call_stands_in_it():
    """A barrier that is left out in some of its turns."""
    steps = ProgramText({FILE: LINES}, frozenset({(FILE, 2)}))
    assert loops([1, 2, 1], steps)[0].line.line == 2
    assert loops([1, 2, 1], PROGRAM, call=HELPER) == []


CALLER = """def fit():
    for x, y in batches:
        loss = step(x, y)
        if is_due():
            torch_xla.sync()
"""
CALLED = """def step(x, y):
    loss_fn(model(x), y).backward()
"""


@pytest.mark.parametrize(
    ("caller", "called", "is_seen"),
    [
        (CALLER, CALLED, True),
        (CALLER.replace("step(x, y)", "optimizer.minimize(step)"), CALLED, False),
        (CALLER.replace("= step(x, y)", "= every(step)"), CALLED, False),
        (CALLER, CALLED.replace("def step(x, y):", ""), False),
    ],
    ids=["a call by name", "a closure", "a function handed on", "a head that is not stored"],
)
def test_a_loop_of_steps_counts_for_a_function_that_is_called_once_a_turn(caller, called, is_seen):
    """Steps that end in some turns only hold the work of those before them."""
    lines = dict(enumerate((caller + called).splitlines(), 1))
    if not lines[6]:
        del lines[6]
    program = ProgramText({FILE: lines}, frozenset({(FILE, 2)}))
    call = (SourceLine(FILE, 7, "step"), SourceLine(FILE, 3, "fit"), CALL)
    found = loops([1, 2, 3], program, call=call)
    assert [loop.line for loop in found] == [SourceLine(FILE, 2, "fit")] * is_seen


BUDGET = """def fit():
    for x, y in batches:
        loss_fn(model(x), y).backward()
        if seen < budget:
            continue
        torch_xla.sync()
"""


@pytest.mark.parametrize(
    ("text", "is_seen"),
    [
        (BUDGET, True),
        (BUDGET.replace("budget:\n            continue", "budget: continue\n"), True),
        (BUDGET.replace("        if seen < budget", "        for one in y"), False),
        (BUDGET.replace("            continue", "            pass"), False),
        (BUDGET.replace("continue", "print('continue')"), False),
    ],
    ids=["a guard", "in one line", "of an inner loop", "no guard", "a word"],
)
def test_a_sync_behind_a_continue_ends_no_turn_that_goes_on_before(text, is_seen):
    lines = dict(enumerate(text.splitlines(), 1))
    program = ProgramText({FILE: lines}, frozenset({(FILE, 2)}))
    site = (Frame(FILE, 6, "fit"),)
    found = loops([9, 7, 8], program, call=(SourceLine(FILE, 3, "fit"),), site=site)
    assert [loop.line.line for loop in found] == [2] * is_seen


def test_a_continue_above_the_call_leaves_out_call_and_sync():
    """A batch that is passed over."""
    text = BUDGET.splitlines()
    text[2:5] = "        if bad(x):", "            continue", text[2]
    program = ProgramText({FILE: dict(enumerate(text, 1))}, frozenset({(FILE, 2)}))
    site = (Frame(FILE, 6, "fit"),)
    assert loops([1, 2, 3], program, call=(SourceLine(FILE, 5, "fit"),), site=site) == []


@pytest.mark.parametrize("turns", [[4, 4, 4], [1, 1, 1], [2, 0, 2]])
def test_as_many_turns_in_every_graph_are_no_cause(turns):
    """Accumulation by design, with a barrier in each turn or without; an evaluation has none."""
    assert loops(turns) == []


def test_graphs_with_a_new_number_or_other_turns_belong_to_it():
    assert members([2, 3, 1], [None, ADDED_INPUT, MISSING_BARRIER]) == ["1", "2"]
    assert members([2, 3, 3], [None, ADDED_INPUT, INPUT_SHAPE]) == ["1", "2"]


def test_what_differs_in_itself_stays_as_it_is():
    assert members([2, 3, 1, 3], [None, ADDED_INPUT, ADDED_INPUT, DTYPE]) == ["1", "2"]
    assert members([2, 1, 3, 1], [None, ADDED_INPUT, ADDED_INPUT, INPUT_SHAPE]) == ["1", "2"]
    assert members([2, 3], [None, ADDED_INPUT]) == [], "one graph is told by itself"


EQUAL = [None, ADDED_INPUT, ADDED_INPUT, SHARED_SCALAR, SHARED_SCALAR]


def test_numbers_of_turns_that_happen_to_be_equal_belong_to_a_loop_without_a_usual_number():
    """A graph of one turn has no number of another one."""
    assert members([2, 3, 4, 3, 2], EQUAL) == ["1", "2", "3", "4"]
    (loop,) = loops([2, 3, 4, 3, 2], step=BEHIND)
    graphs = tuple(nodes(EQUAL))
    said = AsUnrolled(loop, graphs, PROGRAM)(CAUSE, graphs[1:])
    assert str(said.evidence[1].text).startswith("2 graphs differ in which Python numbers")
    assert str(said.fix).endswith(
        "as many turns in every step, and send their numbers in one tensor."
    )


@pytest.mark.parametrize(
    ("turns", "line"),
    [
        pytest.param([2, 3, 4, 3, 2], BEHIND, id="behind the loop"),
        pytest.param([4, 4, 3, 4, 4], BACKWARD, id="a shorter last group"),
        pytest.param([4, 2, 3, 4, 4], BACKWARD, id="a usual number"),
        pytest.param([3, 1, 2, 2, 1], BACKWARD, id="one turn"),
    ],
)
def test_equal_numbers_that_are_not_of_several_turns_stay_a_cause_of_their_own(turns, line):
    assert "4" not in members(turns, EQUAL, line)


def test_a_new_number_of_turns_explains_a_graph_that_nothing_else_does():
    assert members([2, 3, 4], [None, ADDED_INPUT, ""]) == ["1", "2"]
    assert members([2, 3, 4], [None, "", ""]) == [], "no cause to say it with"


def test_several_turns_may_differ_in_ways_that_no_single_cause_fits():
    causes = [None, ADDED_INPUT, ADDED_INPUT, ""]
    assert members([2, 3, 4, 4], causes) == ["1", "2", "3"]
    assert members([2, 3, 3, 2, 3], [*causes, ""]) == ["1", "2"], "turns in two numbers alone"
    assert members([1, 2, 3, 1], causes) == ["1", "2"], "a single turn"


def test_the_number_is_said():
    (loop,) = loops([2, 3, 1])
    graphs = tuple(nodes([None, ADDED_INPUT, MISSING_BARRIER]))
    said = AsUnrolled(loop, graphs, PROGRAM)(CAUSE, graphs[1:])
    assert str(said.short) == "1 to 3 steps are in one graph, their number changes"
    assert str(said.short_fix) == "End each turn of the loop at line 2 with torch_xla.sync()."
    assert GraphName("B") in said.evidence[0].text.parts
    assert said.place.line == loop.line


@pytest.mark.parametrize(
    ("guard", "fix"),
    [
        ("loss.item() < tol", "Run a fixed number of turns; select with torch.where."),
        ("step == last", "End each turn of the loop at line 2 with torch_xla.sync()."),
    ],
)
def test_a_loop_that_ends_where_a_value_says_so_is_told_as_that(guard, fix):
    text = TEXT.replace("        optimizer.step()\n", f"        if {guard}:\n            break\n")
    program = ProgramText({FILE: dict(enumerate(text.splitlines(), 1))}, PROGRAM.step_loops)
    (loop,) = loops([2, 3], program)
    graphs = tuple(nodes([None, INPUT_SHAPE]))
    told = AsUnrolled(loop._replace(updates=False), graphs, program)(CAUSE, graphs)
    assert str(told.short_fix) == fix


@pytest.mark.parametrize(
    ("line", "kind", "is_told"),
    [(9, ACCUMULATION_COUNT, True), (8, ACCUMULATION_COUNT, False), (9, ADDED_INPUT, False)],
    ids=["another number of turns", "a read elsewhere", "another difference"],
)
def test_reads_of_more_turns_or_fewer_are_no_part_of_a_step(line, kind, is_told):
    """Turns whose sum is read behind the loop stand in one graph, as with a sync there."""
    before, now = (
        SimpleNamespace(sync=SimpleNamespace(call_site=("t.py", one))) for one in (line, 9)
    )
    comparison = Comparison(0, "", SimpleNamespace(causes=(SimpleNamespace(kind=kind),)))
    assert _has_other_turns(now, [before], comparison) == is_told
    assert not _has_other_turns(now, [before], Comparison(None, "", None))


TURN = """\
for x in data:
    loss(x).backward()
    if due(x):
        sync()
    sync()
"""


@pytest.mark.parametrize(
    ("line", "found"), [(4, 1), (5, 0)], ids=["under a condition", "each turn"]
)
def test_a_loop_whose_every_turn_ends_with_a_sync_is_not_unrolled(line, found):
    program = ProgramText({FILE: dict(enumerate(TURN.splitlines(), 1))})
    call = (SourceLine(FILE, 2, "<module>"),)
    site = (Frame(FILE, line, "<module>"),)
    assert len(loops([2, 3, 5], program, call=call, step=call, site=site)) == found
