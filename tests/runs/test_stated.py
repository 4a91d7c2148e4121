"""Reasons of a run that go back to a statement which runs no operation."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from xlagraph.cause.verdict import Place
from xlagraph.message import SourceLine, say
from xlagraph.rules.sizes import INPUT_SHAPE
from xlagraph.run.records import SettingRecord
from xlagraph.runs.kinds import CHANGING_UPDATES
from xlagraph.runs.model import CauseGroup
from xlagraph.runs.spent import Spent
from xlagraph.runs.stated import with_statements

USED = SourceLine("t.py", 50, "main")


def place(kind, shapes, *settings, expected=False):
    """The line of a group of graphs with these inputs, and of its title."""
    graphs = [
        SimpleNamespace(
            record=SimpleNamespace(digest=str(k)),
            sketch=SimpleNamespace(interface=SimpleNamespace(inputs=((0, shape), (1, "f32[8]")))),
        )
        for k, shape in enumerate(shapes)
    ]
    group = CauseGroup(
        kind=kind,
        title=say("title"),
        cause=None,
        further=(),
        graphs=tuple(graph.record.digest for graph in graphs),
        compiles=len(graphs),
        spent=Spent(()),
        expected=expected,
        proved=True,
        place=Place(USED),
    )
    run = SimpleNamespace(processes=(SimpleNamespace(settings=settings),))
    (found,) = with_statements([group], run, graphs)
    return found.place.line.line


def collate(line, function="collate"):
    return SettingRecord("t.py", line, function, "padding")


LENGTHS = ("s64[4,7]", "s64[4,9]", "s64[4,12]")


def test_batches_are_padded_to_their_longest():
    assert place(INPUT_SHAPE, LENGTHS, collate(7)) == 7
    assert place(INPUT_SHAPE, LENGTHS, collate(7), collate(8)) == 7  # one function
    assert place(INPUT_SHAPE, ("s64[7,4]", "s64[9,4]", "s64[12,4]"), collate(7)) == 7


@pytest.mark.parametrize(
    ("shapes", "settings"),
    [
        (LENGTHS, ()),
        (LENGTHS, (collate(7), collate(20, "collate_pairs"))),  # one of two
        (LENGTHS[:2], (collate(7),)),  # the last batch of an epoch
        (("f32[4,3,8,8]", "f32[4,3,9,9]", "f32[4,3,12,12]"), (collate(7),)),  # of another scale
        (LENGTHS, (SettingRecord("t.py", 7, "main", "requires_grad"),)),
    ],
)
def test_what_is_not_known_to_come_of_padding_stays_where_it_is_used(shapes, settings):
    assert place(INPUT_SHAPE, shapes, *settings) == USED.line


def test_parameters_are_frozen_in_turn():
    drawn = SettingRecord("t.py", 9, "choose", "requires_grad")
    fixed = SettingRecord("t.py", 3, "main", "requires_grad", "False")
    assert place(CHANGING_UPDATES, LENGTHS, fixed, drawn) == 9
    assert place(CHANGING_UPDATES, LENGTHS, fixed) == USED.line
    assert place(CHANGING_UPDATES, LENGTHS, drawn, expected=True) == USED.line
