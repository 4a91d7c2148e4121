"""What comes along with a number that changes is no cause of its own, where it comes once."""

from __future__ import annotations

from collections import namedtuple
from types import SimpleNamespace

import pytest
from written_runs import write

from xlagraph.facts.program.enclosing import ProgramText
from xlagraph.message import SourceLine
from xlagraph.rules.dtypes.dtype import DTYPE
from xlagraph.rules.inputs.live_tensors import LIVE_TENSOR
from xlagraph.rules.numbers.constant_value import CONSTANT_VALUE
from xlagraph.rules.order.reordered_operands import REORDERED_OPERANDS
from xlagraph.rules.pieces.early_execution import EARLY_EXECUTION
from xlagraph.rules.pieces.extra_subgraph import EXTRA_SUBGRAPH
from xlagraph.rules.pieces.replaced_subgraph import REPLACED_SUBGRAPH
from xlagraph.rules.shapes.sizes import INPUT_SHAPE, PYTHON_INDEX, PYTHON_SIZE
from xlagraph.runs.beside import (
    of_loops,
    of_most,
    of_other_dtypes,
    of_other_sizes,
    of_pending_loops,
    of_read_numbers,
)
from xlagraph.runs.causes.growth import AsLoop
from xlagraph.runs.causes.pending import AsPending
from xlagraph.runs.kinds import GROWING_GRAPH, UNEXPLAINED
from xlagraph.runs.reasons import Reason


def step(number, *, kept=False):
    """A step with a number baked into it, at the end of which a value may be kept."""
    values = [f"%v{k}" for k in range(3)]
    inner = "".join(
        f"  {value} = f32[4]{{0}} {opcode}(f32[4]{{0}} %p)\n"
        for value, opcode in zip(values, ("tanh", "sine", "cosine"), strict=True)
    )
    inner += "  %k = f32[4]{0} add(f32[4]{0} %v0, f32[4]{0} %v1)\n"
    inner += "  %l = f32[4]{0} multiply(f32[4]{0} %k, f32[4]{0} %v2)\n"
    root = "(f32[4]{0} %m, f32[4]{0} %l)" if kept else "(f32[4]{0} %m)"
    types = "(f32[4], f32[4])" if kept else "(f32[4])"
    return (
        f"HloModule step\n\nENTRY %main (p: f32[4]) -> {types} {{\n"
        "  %p = f32[4]{0} parameter(0)\n"
        f"  %c = f32[] constant({number})\n"
        "  %w = f32[4]{0} broadcast(f32[] %c), dimensions={}\n"
        "  %m = f32[4]{0} multiply(f32[4]{0} %p, f32[4]{0} %w)\n"
        f"{inner if kept else ''}  ROOT %t = {types} tuple{root}\n}}\n"
    )


Cited = namedtuple("Cited", "opcode shape")
Outcome = namedtuple("Outcome", "first_a first_b")
Said = namedtuple("Said", "kind lines")
Found = namedtuple("Found", "causes")
Node = namedtuple("Node", "digest warm_up explanation")
Work = namedtuple("Work", "line")
NUMBERS = [0.5 + k / 8 for k in range(12)]


def test_a_value_that_is_kept_once_comes_along_with_a_number_that_changes(tmp_path):
    run = write(tmp_path, [(20, step(one, kept=one == NUMBERS[4])) for one in NUMBERS])
    (problem,) = run.problems
    assert (problem.kind.id, problem.compiles) == ("constant-value", 11)
    assert [one.kind.id for one in problem.further] == ["live-tensor"]


def test_a_value_that_alone_makes_a_graph_is_a_cause_of_its_own(tmp_path):
    steps = [(20, step(one)) for one in NUMBERS] + [(20, step(NUMBERS[-1], kept=True))]
    first, second, *_ = write(tmp_path, steps).groups
    assert (first.kind.id, first.compiles) == ("constant-value", len(NUMBERS) - 1)
    assert (second.kind.id, second.compiles) == ("live-tensor", 1)


def cause(kind, line):
    return Said(kind, (SourceLine("t.py", line, "f"),))


def baked(*graphs):
    """The lines with which graphs are filed that have these causes, each a kind and a line."""
    nodes = [
        Node(str(k), False, Found(tuple(cause(*one) for one in graph)))
        for k, graph in enumerate(graphs)
    ]
    known = {
        node.digest: Reason(graph[0][0], SourceLine("t.py", graph[0][1], "f"))
        for node, graph in zip(nodes, graphs, strict=True)
    }
    found = {**known, **of_most(nodes, known)}
    return [(found[node.digest].kind, found[node.digest].line.line) for node in nodes]


SPAN, BEGIN, LIST = (PYTHON_SIZE, 5), (PYTHON_INDEX, 5), (PYTHON_SIZE, 9)


def test_of_lines_that_change_together_that_of_most_graphs_is_told():
    """A span that begins or ends elsewhere each time, and a list until it is full."""
    graphs = [(LIST, SPAN), (SPAN, LIST), (LIST, BEGIN), (SPAN,), (BEGIN,), (SPAN, BEGIN)]
    assert baked(*graphs) == [SPAN] * 6


def test_lines_that_change_in_graphs_of_their_own_stay_apart():
    other = (CONSTANT_VALUE, 7)
    assert baked((SPAN,), (LIST,), (SPAN,), (LIST,)) == [SPAN, LIST, SPAN, LIST]
    assert baked((LIST, SPAN), (LIST, BEGIN)) == [LIST, LIST], "too few to know"
    assert baked((other, SPAN), (SPAN,), (SPAN,), (SPAN,)) == [other, SPAN, SPAN, SPAN]


def sized(number, before, after):
    """A graph that differs from another one in the size of an input."""
    cited = [Cited("parameter", shape) for shape in (before, after)]
    outcome = Outcome(*cited)
    return Node(str(number), False, outcome)


@pytest.mark.parametrize(("shape", "joined"), [("f32[{},12]", True), ("f32[{},16]", False)])
def test_an_input_that_has_another_size_at_another_line_is_one_cause(shape, joined):
    often = [sized(k, f"f32[{k + 20},12]", f"f32[{k + 30},12]") for k in range(5)]
    once = sized(9, shape.format(40), shape.format(44))
    known = {one.digest: Reason(INPUT_SHAPE, SourceLine("train.py", 5)) for one in often}
    known[once.digest] = Reason(INPUT_SHAPE, SourceLine("train.py", 7))
    found = of_other_sizes([*often, once], known)
    assert found == ({"9": known["0"]} if joined else {})


Of = namedtuple("Of", "digest warm_up nearest instructions explanation", defaults=("", 9, None))
"""What is asked of a node here."""


@pytest.mark.parametrize(
    ("line", "times", "joined"),
    [
        pytest.param(SourceLine("train.py", 6, "forward"), 3, True, id="same function"),
        pytest.param(SourceLine("train.py", 6, "other"), 3, False, id="another function"),
        pytest.param(SourceLine("train.py", 6, "forward"), 2, False, id="seldom"),
    ],
)
def test_columns_that_take_each_others_dtypes_come_of_those_that_change(line, times, joined):
    nodes = [Of(str(k), warm_up=False) for k in range(times + 1)]
    dtype = Reason(DTYPE, SourceLine("train.py", 5, "forward"))
    known = dict.fromkeys(map(str, range(times)), dtype) | {
        str(times): Reason(REORDERED_OPERANDS, line)
    }
    assert of_other_dtypes(nodes, known) == ({str(times): dtype} if joined else {})


@pytest.mark.parametrize(
    ("functions", "instructions", "joined"),
    [
        (("forward", "forward"), 9, True),
        (("forward", "loss"), 9, False),
        (("loss",), 9, False),
        ((), 9, False),
        (("forward",), 12, False),  # more is computed
    ],
)
def test_what_no_cause_fits_comes_of_them_where_as_much_is_computed(
    functions, instructions, joined
):
    places = [SimpleNamespace(line=SourceLine("train.py", 6, one)) for one in functions]
    left = Of("x", False, "0", instructions, SimpleNamespace(left_at=places))
    nodes = [*(Of(str(k), warm_up=False) for k in range(3)), left]
    dtype = Reason(DTYPE, SourceLine("train.py", 5, "forward"))
    known = dict.fromkeys("012", dtype) | {
        "x": Reason(UNEXPLAINED, SourceLine("train.py", 20, "f"))
    }
    assert of_other_dtypes(nodes, known) == ({"x": dtype} if joined else {})


@pytest.mark.parametrize(
    ("kind", "line", "joined"),
    [(PYTHON_INDEX, 5, True), (PYTHON_INDEX, 6, False), (DTYPE, 5, False)],
)
def test_what_a_read_cuts_comes_of_the_number_that_is_read(kind, line, joined):
    nodes = [Of(str(k), warm_up=False) for k in range(4)]
    often = Reason(kind, SourceLine("train.py", 5, "prune"))
    known = dict.fromkeys("012", often) | {
        "3": Reason(EARLY_EXECUTION, SourceLine("train.py", line, "prune"))
    }
    assert of_read_numbers(nodes, known) == ({"3": often} if joined else {})


@pytest.mark.parametrize(
    ("kind", "line", "often", "joined"),
    [
        (REPLACED_SUBGRAPH, 5, 3, True),
        (REPLACED_SUBGRAPH, 6, 3, False),
        (EXTRA_SUBGRAPH, 5, 3, False),
        (REPLACED_SUBGRAPH, 5, 2, False),
    ],
    ids=["there", "another line", "one side alone", "as often"],
)
def test_a_seldom_piece_comes_of_the_numbers_that_change_at_its_line(kind, line, often, joined):
    """The sizes of a split: where several change at once, it may look like another piece."""
    numbers = Reason(PYTHON_INDEX, SourceLine("train.py", 5, "forward"))
    piece = Reason(kind, SourceLine("train.py", line, "forward"))
    known = dict.fromkeys([f"n{k}" for k in range(often)], numbers)
    known |= dict.fromkeys(["p0", "p1"], piece)
    nodes = [Of(digest, warm_up=False) for digest in known]
    found = of_read_numbers(nodes, known)
    assert found == (dict.fromkeys(["p0", "p1"], numbers) if joined else {})


@pytest.mark.parametrize(
    ("line", "function", "joined"),
    [
        (9, "solve", True),
        (7, "solve", False),
        (40, "solve", False),
        (31, "predict", True),
        (30, "predict", False),
    ],
    ids=["right behind", "in the loop", "far behind", "where it is called", "beside that"],
)
def test_pieces_behind_a_loop_that_reads_come_of_it(line, function, joined):
    text = {30: "def solve(x, start):", 31: "    state, n = self.solve(state, start)"}
    program = ProgramText({"train.py": text})
    work = AsPending(Work(SourceLine("train.py", 8, "solve")))
    loop = Reason(GROWING_GRAPH, SourceLine("train.py", 8, "solve"), work)
    piece = Reason(REPLACED_SUBGRAPH, SourceLine("train.py", line, function))
    known = dict.fromkeys("012", loop) | {"3": piece}
    nodes = [Node(digest, False, None) for digest in known]
    assert of_pending_loops(nodes, known, program) == {"3": loop if joined else piece}


@pytest.mark.parametrize(
    ("changed", "is_of_loop"),
    [
        ({}, True),
        ({"proved": True}, False),
        ({"step": 9}, False),
        ({"call_site": SourceLine("t.py", 50, "test")}, False),
        ({"warm_up": True}, False),
    ],
    ids=["unproved", "proved", "no new length", "another place", "warm-up"],
)
def test_what_is_kept_in_a_step_whose_loop_has_a_new_length_comes_with_that(changed, is_of_loop):
    def graph(digest, step, call_site, *, proved=True, warm_up=False):
        return SimpleNamespace(
            digest=digest,
            rank=0,
            step=step,
            call_site=call_site,
            warm_up=warm_up,
            explanation=SimpleNamespace(proved=proved),
        )

    read, ends = SourceLine("t.py", 7, "solve"), SourceLine("t.py", 20, "train")
    looped = [graph(f"{k}{at.line}", k, at) for k in (2, 4, 6) for at in (read, ends)]
    looped.append(graph("read", 8, read))
    kept = graph("kept", **{"step": 8, "call_site": ends, "proved": False, **changed})
    loop = Reason(EXTRA_SUBGRAPH, read, AsLoop(ProgramText(), ()))
    known = {node.digest: loop for node in looped} | {"kept": Reason(LIVE_TENSOR, ends)}
    assert of_loops([*looped, kept], known) == ({"kept": loop} if is_of_loop else {})
