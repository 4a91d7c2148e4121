"""Graphs that are meant, and of which there is nothing to say."""

from __future__ import annotations

from dataclasses import dataclass, replace
from types import SimpleNamespace

import pytest

from xlagraph.message import EMPTY, Message, SourceLine
from xlagraph.runs.by_design.sorts import Part
from xlagraph.runs.by_design.untold import without_notes
from xlagraph.runs.model import Meant

PLACE = SourceLine("train.py", 90, "learn")
STATE = SimpleNamespace(expected=True)
OTHER = SimpleNamespace(expected=False)


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


@pytest.mark.parametrize("meant", [Meant.RHYTHM, Meant.PHASE])
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
    ],
    ids=["no state", "comes again", "elsewhere", "no first", "sizes", "a problem"],
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
