"""Graphs that are meant, and of which there is nothing to say."""

from __future__ import annotations

from dataclasses import dataclass, replace
from types import SimpleNamespace

import pytest

from xlagraph.message import EMPTY, Message, SourceLine
from xlagraph.rules.inputs.live_tensors import LIVE_TENSOR
from xlagraph.rules.training.optimizer_state import OPTIMIZER_STATE
from xlagraph.runs.by_design.sorts import Part
from xlagraph.runs.by_design.untold import without_notes
from xlagraph.runs.model import Meant

PLACE = SourceLine("train.py", 90, "learn")
STATE = SimpleNamespace(expected=True, kind=OPTIMIZER_STATE)
MADE = SimpleNamespace(expected=False, kind=OPTIMIZER_STATE)
OTHER = SimpleNamespace(expected=False, kind=LIVE_TENSOR)


@dataclass(frozen=True)
class Node:
    """What is asked of a graph."""

    digest: str
    nearest: str = ""
    causes: tuple[SimpleNamespace, ...] = ()
    meant: Meant = Meant.NOT
    hits: int = 0
    by_design: bool = False
    part: Message = EMPTY
    call_site: SourceLine = PLACE
    warm_up: bool = True
    sync_kind: str = "step"
    rank: int = 0
    proved: bool = True

    @property
    def explanation(self):
        return SimpleNamespace(causes=self.causes, proved=self.proved) if self.nearest else None


def untold(nodes, parts=()):
    sorts = dict(enumerate(SimpleNamespace(part=part) if part else None for part in parts))
    return without_notes(nodes, SimpleNamespace(sort=sorts.get))


FIRST = Node("a", by_design=True)
SECOND = Node("b", "a", (OTHER, STATE), Meant.RHYTHM, hits=5)


@pytest.mark.parametrize("meant", [Meant.RHYTHM, Meant.PHASE, Meant.SETTLED])
def test_the_second_step_of_a_part_takes_in_what_the_first_made(meant):
    _, second = untold([FIRST, replace(SECOND, meant=meant)])
    assert (second.meant, second.warm_up) == (Meant.NOT, True)


@pytest.mark.parametrize(
    ("first", "second"),
    [
        (FIRST, replace(SECOND, causes=(OTHER,))),
        (replace(FIRST, hits=3), SECOND),
        (replace(FIRST, call_site=PLACE._replace(line=80)), SECOND),
        (replace(FIRST, nearest="z", by_design=False), SECOND),
        (FIRST, replace(SECOND, meant=Meant.SIZES)),
        (FIRST, replace(SECOND, meant=Meant.NOT, warm_up=False)),
        (FIRST, replace(SECOND, meant=Meant.SETTLED, hits=0)),
    ],
    ids=["no state", "comes again", "elsewhere", "no first", "sizes", "a problem", "once"],
)
def test_other_changes_are_told(first, second):
    assert untold([first, second]) == [first, second]


SETTLED = Node("c", "a", (OTHER,), Meant.SETTLED, hits=12, proved=False)
ELSEWHERE = replace(FIRST, call_site=PLACE._replace(line=80))


def test_the_only_graph_of_a_place_is_a_kind_of_step():
    _, found = untold([ELSEWHERE, SETTLED])
    assert (found.meant, found.by_design, found.warm_up) == (Meant.NOT, True, True)
    assert str(found.part) == "step at train.py:90 in learn()"


@pytest.mark.parametrize(
    ("first", "found"),
    [
        (FIRST, SETTLED),
        (ELSEWHERE, replace(SETTLED, hits=0)),
        (ELSEWHERE, replace(SETTLED, sync_kind="value")),
        (ELSEWHERE, replace(SETTLED, proved=True)),
        (ELSEWHERE, replace(SETTLED, meant=Meant.EARLY)),
    ],
    ids=["one of two", "once", "a read", "proved", "early"],
)
def test_other_graphs_that_settled_are_told(first, found):
    assert untold([first, found])[1] == found


BATCH, ADDED, UPDATE = Part.MICRO_BATCH, Part.ACCUMULATE, Part.UPDATE
CYCLE = [
    Node("a", hits=9),
    Node("b", "a", (OTHER,), Meant.EARLY, hits=9),
    Node("c", "b", (OTHER,), Meant.PHASE),
    Node("d", "c", (STATE,), hits=9),
]


def test_how_the_first_update_comes_about_is_no_change():
    found = untold(CYCLE, (BATCH, ADDED, UPDATE, UPDATE))
    assert [one.by_design for one in found] == [False, True, True, False]
    assert all(one.meant is Meant.NOT for one in found)


@pytest.mark.parametrize(
    ("nodes", "parts"),
    [
        (CYCLE, (UPDATE, BATCH, ADDED, UPDATE)),  # it accumulates later on
        (CYCLE[:2], (BATCH, ADDED)),  # it never updates
        (CYCLE[:3], (BATCH, BATCH, UPDATE)),  # another micro-batch, and an update that ran once
        (CYCLE, (BATCH, None, None, None)),
        (CYCLE[:3], (BATCH, Part.EVALUATION, UPDATE)),
    ],
)
def test_a_change_of_what_has_updated_is_told(nodes, parts):
    assert untold(nodes, parts) == nodes


LATER = Node("d", "a", (MADE,), Meant.EARLY, hits=9)


def test_a_graph_without_the_state_that_the_first_step_makes_is_no_change():
    found = untold([Node("a"), Node("b", "a", (OTHER,), hits=9), LATER])[2]
    assert (found.meant, found.warm_up) == (Meant.NOT, True)


@pytest.mark.parametrize(
    ("first", "later"),
    [
        (Node("a"), replace(LATER, causes=(MADE, OTHER))),
        (Node("a"), replace(LATER, proved=False)),
        (Node("a", hits=3), LATER),
        (Node("a", call_site=PLACE._replace(line=80)), LATER),
    ],
)
def test_what_else_a_graph_lacks_is_told(first, later):
    assert untold([first, Node("b"), later])[2] == later


TRAINED = replace(FIRST, call_site=PLACE._replace(line=80), by_design=False)
BATCH_1 = Node("b", by_design=True)
BATCH_2 = Node("c", "a", (OTHER,), Meant.RHYTHM, hits=4)


def test_what_an_evaluation_has_otherwise_than_the_training_is_no_change():
    parts = Part.UPDATE, Part.EVALUATION, Part.EVALUATION
    found = untold([TRAINED, BATCH_1, BATCH_2], parts)[2]
    assert (found.meant, found.by_design) == (Meant.NOT, True)


@pytest.mark.parametrize(
    ("nodes", "parts"),
    [
        ((TRAINED, BATCH_1, replace(BATCH_2, nearest="b")), "UEE"),
        ((TRAINED, BATCH_1, replace(BATCH_2, hits=0)), "UEE"),
        ((TRAINED, BATCH_1, replace(BATCH_2, meant=Meant.CHOICE)), "UEE"),
        ((TRAINED, BATCH_1, BATCH_2), "UUU"),  # a training in two functions
        ((TRAINED, BATCH_1, BATCH_2), "EEE"),
        ((TRAINED, replace(BATCH_1, call_site=TRAINED.call_site), BATCH_2), "UEE"),
    ],
)
def test_what_changes_in_a_part_itself_is_told(nodes, parts):
    sorts = {"U": Part.UPDATE, "E": Part.EVALUATION}
    assert untold(nodes, [sorts[part] for part in parts])[2] == nodes[2]
