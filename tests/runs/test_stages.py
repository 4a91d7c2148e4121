"""All that comes as a stage of a program begins is part of it, if it is all that comes."""

from __future__ import annotations

from dataclasses import dataclass
from types import SimpleNamespace

import pytest

from xlagraph.rules.numbers.constant_value import CONSTANT_VALUE
from xlagraph.rules.pieces.extra_subgraph import EXTRA_SUBGRAPH
from xlagraph.rules.shapes.sizes import PYTHON_SIZE
from xlagraph.run.records import Frame
from xlagraph.runs.by_design.stages import with_stages
from xlagraph.runs.model import Meant
from xlagraph.runs.steps.order import Turn
from xlagraph.tensors import Role, Tensor

STEP, OTHER = (Frame("train.py", 20, "stage"),), (Frame("train.py", 30, "evaluate"),)
HEAD, BODY = (Tensor(part, "weight", Role.GRADIENT) for part in ("head", "body"))
FILE = "rank0"


@dataclass
class Node:
    """What is asked of a graph's node."""

    digest: str
    warm_up: bool
    explanation: SimpleNamespace | None = None
    meant: Meant = Meant.NOT


def graph(letter, step, gradients, site=STEP):
    context = SimpleNamespace(outputs=dict(enumerate(gradients)), parameters={})
    return SimpleNamespace(
        step=step,
        site=site,
        process=SimpleNamespace(file=FILE),
        record=SimpleNamespace(digest=letter),
        sketch=SimpleNamespace(replaced=()),
        context=lambda: context,
    )


def explained(kind, *, proved=True):
    """What is said of a graph."""
    kinds = frozenset({kind}) if proved else frozenset()
    causes = [SimpleNamespace(kind=kind)]
    return SimpleNamespace(proved=proved, causes=causes, proved_kinds=kinds)


def meant(graphs, ran, told=(), why=None):
    """The letters of the graphs that are meant; `ran` has one for each step, a dot for unknown.

    `why`: by letter what is said of a graph.
    """
    why = why or {}
    sites = {one.record.digest: one.site for one in graphs}
    turns = [
        Turn(k, sites.get(letter, STEP), frozenset({letter} & set(sites)))
        for k, letter in enumerate(ran)
    ]
    letters = [one.record.digest for one in graphs]
    nodes = [Node(k, one.step == 0, why.get(k)) for k, one in zip(letters, graphs, strict=True)]
    design = SimpleNamespace(turns_of=lambda _: turns)
    found = with_stages(nodes, graphs, design, frozenset(told), len(ran))
    assert all(one.warm_up for one in found if one.meant)
    return "".join(one.digest for one in found if one.meant is Meant.PHASE)


FIRST = graph("A", 0, [HEAD])
STAGE = [FIRST, graph("B", 20, [HEAD, BODY]), graph("C", 21, [HEAD, BODY]), graph("D", 24, [BODY])]


def test_what_comes_as_a_stage_begins_is_meant():
    assert meant(STAGE, "A" * 20 + "BCCCDCDC..CDCDCDCDCDCDCD") == "BCD"


@pytest.mark.parametrize(
    ("graphs", "ran", "told"),
    [
        pytest.param(STAGE, "A" * 20 + "BCCCDCDCACDCDCDCDCDCDCDC", "", id="an earlier graph comes"),
        pytest.param(STAGE, "A" * 20 + "BCCCDCDCD", "", id="it is too short to tell"),
        pytest.param(STAGE, "A" * 20 + "B" + "." * 30, "BCD", id="it goes on"),
        pytest.param([FIRST, graph("B", 20, [HEAD])], "A" * 20 + "B" * 20, "", id="nothing new"),
        pytest.param([graph("A", 0, []), *STAGE[1:]], "A" * 20 + "BCCCD" + "C" * 20, "", id="none"),
        pytest.param(
            [*STAGE[:3], graph("D", 40, [BODY])],
            "A" * 20 + "B" + "C" * 19 + "D" * 15,
            "",
            id="late",
        ),
        pytest.param(
            [FIRST, graph("B", 1, [HEAD, BODY]), graph("C", 9, [HEAD, BODY])],
            "A" + ("B" * 8 + "C") * 6,
            "",
            id="nothing ran but the first step",
        ),
    ],
)
def test_what_is_no_stage_of_its_own(graphs, ran, told):
    assert meant(graphs, ran, told) == ""


def test_a_place_whose_graphs_come_again_has_no_part_in_it():
    graphs = [*STAGE, graph("E", 5, [], OTHER), graph("F", 30, [], OTHER)]
    graphs.sort(key=lambda one: one.step)
    ran = "A" * 5 + "E" + "A" * 14 + "BCCCDC" + "CDCDFE" + "CD" * 20
    assert meant(graphs, ran) == "BCD"


def test_two_stages_are_told_apart():
    third = graph("E", 60, [HEAD, BODY, Tensor("stem", "weight", Role.GRADIENT)])
    assert meant([*STAGE, third], "A" * 20 + "BCCCD" + "C" * 35 + "E" * 30) == "BCDE"


PIECE = explained(EXTRA_SUBGRAPH)
LOSS = [FIRST, graph("B", 1, [HEAD]), graph("C", 30, [HEAD]), graph("D", 31, [HEAD])]


def test_a_stage_that_computes_something_else_begins_with_that():
    """Another loss, with a new optimizer for the same weights."""
    assert meant(LOSS, "AB" * 15 + "CD" * 15, why={"C": PIECE}) == "CD"


@pytest.mark.parametrize(
    ("graphs", "ran", "why"),
    [
        pytest.param(LOSS, "AB" * 15 + "CDCDCDBA" * 4, PIECE, id="it comes now and then"),
        pytest.param(LOSS, "AB" * 15 + "CD" * 4, PIECE, id="it is too short to tell"),
        pytest.param(
            LOSS, "AB" * 15 + "CD" * 15, explained(EXTRA_SUBGRAPH, proved=False), id="not proved"
        ),
        pytest.param(LOSS, "AB" * 15 + "CD" * 15, explained(CONSTANT_VALUE), id="a number"),
        pytest.param(
            LOSS, "AB" * 15 + "CD" * 15, SimpleNamespace(proved=True, causes=()), id="the same"
        ),
        pytest.param(
            [FIRST, graph("B", 20, [HEAD]), *LOSS[2:]],
            "A" * 20 + "B" * 10 + "CD" * 15,
            PIECE,
            id="soon after another",
        ),
    ],
)
def test_other_pieces_that_begin_no_stage(graphs, ran, why):
    assert meant(graphs, ran, why={"C": why}) == ""


SIZE = explained(PYTHON_SIZE)
JOINED = [FIRST, graph("B", 30, [HEAD])]


def test_a_size_that_is_made_otherwise_from_a_step_on_is_a_stage():
    """A queue joins the logits from the second epoch on."""
    assert meant(JOINED, "A" * 30 + "B" * 30, why={"B": SIZE}) == "B"


@pytest.mark.parametrize(
    ("graphs", "ran", "why"),
    [
        pytest.param(JOINED, "A" * 30 + "B" * 20, SIZE, id="it is too short to tell"),
        pytest.param(JOINED, "A" * 30 + "BBBA" * 8, SIZE, id="it comes now and then"),
        pytest.param(
            [*JOINED, graph("C", 60, [HEAD])], "A" * 30 + "B" * 30 + "C" * 30, SIZE, id="it grows"
        ),
        pytest.param(
            JOINED, "A" * 30 + "B" * 30, explained(PYTHON_SIZE, proved=False), id="not proved"
        ),
    ],
)
def test_sizes_that_are_no_stage(graphs, ran, why):
    assert meant(graphs, ran, why=dict.fromkeys("BC", why)) == ""
