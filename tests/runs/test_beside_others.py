"""Graphs that go with a new size, or with a loop that reads values, and what stays apart."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from xlagraph.message import SourceLine
from xlagraph.rules.inputs.added_input import ADDED_INPUT
from xlagraph.rules.numbers.shared_scalar import SHARED_SCALAR
from xlagraph.rules.pieces.extra_subgraph import EXTRA_SUBGRAPH
from xlagraph.rules.pieces.replaced_subgraph import REPLACED_SUBGRAPH
from xlagraph.rules.shapes.sizes import INPUT_SHAPE, PYTHON_SIZE
from xlagraph.runs.beside import of_new_sizes, of_reading_loops
from xlagraph.runs.causes.growth import AsLoop
from xlagraph.runs.kinds import GROWING_GRAPH
from xlagraph.runs.of_lists import joins_of_lists
from xlagraph.runs.reasons import SIZES, Reason, within_loops

SIZE = Reason(INPUT_SHAPE, SourceLine("t.py", 20))
AGAIN = Reason(ADDED_INPUT, SourceLine("t.py", 9))
MADE = Reason(PYTHON_SIZE, SourceLine("t.py", 30))
LINE = SourceLine("t.py", 61, "integrate")
WITHIN = (SourceLine("t.py", 29, "forward"), LINE, SourceLine("t.py", 120, "main"))
BESIDE = (SourceLine("t.py", 128, "main"),)


def node(digest, step, instructions=100, *, stack=(), kind="step", site=None):
    cause = SimpleNamespace(place=SimpleNamespace(stack=stack))
    return SimpleNamespace(
        digest=digest,
        rank=0,
        step=step,
        instructions=instructions,
        warm_up=False,
        sync_kind=kind,
        call_site=site,
        explanation=SimpleNamespace(causes=(cause,)),
    )


def in_sizes(again, *, size_steps=(6, 12, 18), instructions=None, reason=AGAIN):
    """Which graphs are told with sizes that are new in these steps."""
    sizes = [node(f"s{k}", k, 120) for k in size_steps]
    numbers = instructions or [100] * len(again)
    others = [node(f"o{k}", k, n) for k, n in zip(again, numbers, strict=True)]
    known = {one.digest: SIZE for one in sizes} | {one.digest: reason for one in others}
    found = of_new_sizes([*sizes, *others], known, SIZES)
    assert set(found.values()) <= {SIZE}
    return sorted(found)


def test_the_step_behind_each_new_size_goes_with_the_sizes():
    assert in_sizes([1, 7, 13, 19]) == ["o1", "o13", "o19", "o7"]


@pytest.mark.parametrize(
    ("again", "instructions"),
    [
        pytest.param([1, 7, 14, 19], None, id="another step"),
        pytest.param([7, 13], None, id="too seldom"),
        pytest.param([1, 7, 13, 19], [100, 100, 90, 100], id="another graph"),
        pytest.param([7, 13, 19], None, id="no first one"),
    ],
)
def test_what_comes_in_other_steps_is_a_reason_of_its_own(again, instructions):
    assert in_sizes(again, instructions=instructions) == []


def test_what_a_step_makes_in_the_size_of_an_input_goes_with_that():
    assert in_sizes([6, 12, 18], reason=MADE) == ["o12", "o18", "o6"]
    assert in_sizes([6, 12, 17], reason=MADE) == []
    other = SIZE._replace(line=SourceLine("t.py", 40))
    assert in_sizes([6, 12, 18], reason=other) == []


class Program:
    """Loops within a step begin at these lines."""

    def __init__(self, **loops):
        self.loops = loops

    def loop_in_step(self, line):
        return self.loops.get(line.function)


def looped(program, *, loops=3):
    """Which graphs are told of the loop that most of them are of."""
    as_loop = Reason(EXTRA_SUBGRAPH, SourceLine("t.py", 55), AsLoop(program, ()))
    nodes = [node(f"l{k}", k, stack=WITHIN, kind="value", site=LINE) for k in range(loops)]
    known = {one.digest: as_loop for one in nodes}
    others = {
        "piece": (WITHIN, Reason(REPLACED_SUBGRAPH)),
        "number": (WITHIN, Reason(SHARED_SCALAR)),
        "small": (WITHIN, Reason(EXTRA_SUBGRAPH, how="small")),
        "beside": (BESIDE, Reason(SHARED_SCALAR)),
    }
    nodes += [node(name, 20, stack=stack) for name, (stack, _) in others.items()]
    known |= {name: reason for name, (_, reason) in others.items()}
    found = of_reading_loops(nodes, known, program)
    assert set(found.values()) <= {as_loop}
    return {*found} - {f"l{k}" for k in range(loops)}


def test_what_a_loop_calls_that_reads_values_is_told_of_the_loop():
    assert looped(Program(integrate=SourceLine("t.py", 55))) == {"piece", "number"}


def test_no_loop_reads_where_none_begins_within_the_step_or_few_graphs_are_of_it():
    assert looped(Program()) == set()
    assert looped(Program(integrate=SourceLine("t.py", 55)), loops=2) == set()


LOOP = SourceLine("t.py", 55)


def within(*functions, known=REPLACED_SUBGRAPH):
    """Which graphs, with a piece in each of these functions, are told of a loop that reads."""
    nodes = [node(f"n{k}", k) for k in range(len(functions))]
    reasons = {
        one.digest: Reason(known, SourceLine("t.py", 61, function))
        for one, function in zip(nodes, functions, strict=True)
    }
    as_loop = AsLoop(Program(integrate=LOOP, forward=SourceLine("t.py", 7)), ())
    found = within_loops(nodes, reasons, as_loop, frozenset({LOOP}))
    assert set(found.values()) <= {Reason(EXTRA_SUBGRAPH, LOOP, as_loop)}
    return sorted(found)


def test_pieces_in_a_loop_that_reads_are_its_turns_though_no_size_tells():
    assert within("integrate", "integrate", "forward", "integrate") == ["n0", "n1", "n3"]
    assert within("integrate", "integrate", "forward", "forward") == []  # two may be anything
    assert within(*["integrate"] * 3, known=SHARED_SCALAR) == []


@pytest.mark.parametrize(("graphs", "told"), [(3, ["joined"]), (2, [])])
def test_what_joins_one_tensor_more_is_told_of_the_list_that_grows_there(graphs, told):
    line = SourceLine("t.py", 82, "report")
    grown = Reason(GROWING_GRAPH, line, lambda cause, _: cause)
    known = {f"g{k}": grown for k in range(graphs)}
    known |= {"joined": Reason(ADDED_INPUT, line), "other": Reason(ADDED_INPUT, LOOP)}
    found = joins_of_lists([node(name, k) for k, name in enumerate(known)], known)
    assert sorted(found) == told
    assert set(found.values()) <= {grown}
