"""Inputs whose dtype is taken from the values, placed where the host makes them."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from xlagraph.cause.model import Cause
from xlagraph.cause.verdict import Place
from xlagraph.message import SourceLine, say
from xlagraph.rules.dtypes.dtype import DTYPE, FROM_VALUES
from xlagraph.run.records import SettingRecord
from xlagraph.runs.causes.untyped import with_makers
from xlagraph.runs.model import CauseGroup
from xlagraph.runs.steps.spent import Spent

SENT = SourceLine("t.py", 50, "main")


def place(text, *calls, short_fix=FROM_VALUES.short_fix, expected=False):
    """Where a dtype is told to come from, if the input is sent at a line with this text."""
    where = Place(SENT, source=((50, text),))
    cause = Cause(
        kind=DTYPE,
        title=say("title"),
        evidence=(),
        fix=FROM_VALUES.fix,
        proof=say(),
        expected=expected,
        proved=True,
        share=1.0,
        a=frozenset(),
        b=frozenset(),
        short_fix=short_fix,
        place=where,
    )
    group = CauseGroup(
        kind=DTYPE,
        title=say("title"),
        cause=cause,
        further=(),
        graphs=("a", "b"),
        compiles=2,
        spent=Spent(()),
        expected=expected,
        proved=True,
        place=where,
    )
    settings = [SettingRecord("t.py", line, f, "untyped", name) for line, f, name in calls]
    (found,) = with_makers([group], [SimpleNamespace(settings=settings)])
    return found.place.line.line


def test_one_function_takes_dtypes_from_values():
    assert place("x = x.to(device)", (7, "load", "")) == 7
    assert place("x, y = (t.to(device) for t in (x, y))", (8, "load", "y"), (7, "load", "x")) == 7


def test_the_name_that_is_sent_tells_which_of_several():
    calls = (7, "load", "dose"), (8, "load", "age"), (30, "grid", "edges")
    assert place("age = age.to(device)", *calls) == 8
    assert place("edges = edges.to(device)", *calls) == 30


@pytest.mark.parametrize(
    ("calls", "given"),
    [
        ((), {}),
        (((7, "load", "dose"), (30, "grid", "edges")), {}),
        (((7, "load", "x"),), {"short_fix": say("Another one.")}),
        (((7, "load", "x"),), {"expected": True}),
    ],
    ids=["none", "one of two functions", "no input", "expected"],
)
def test_what_is_not_known_to_come_of_values_stays_where_it_is_sent(calls, given):
    assert place("x = x.to(device)", *calls, **given) == SENT.line
