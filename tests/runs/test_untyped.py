"""Inputs whose dtype is taken from the values, placed where the host makes them."""

from __future__ import annotations

from dataclasses import replace
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
    (found, *_) = told = with_makers([group, replace(group)], [SimpleNamespace(settings=settings)])
    assert [one.compiles for one in told] == ([2, 2] if found.place is where else [4])
    return found.place.line.line


def beside(title, *calls, short_fix=FROM_VALUES.short_fix):
    """The group of types that differ in a model, where an input comes in another dtype as well."""
    at = SourceLine("model.py", 83, "forward")
    own = Cause(
        kind=DTYPE,
        title=say(title),
        evidence=(),
        fix=say("fix"),
        proof=say(),
        expected=False,
        proved=True,
        share=1.0,
        a=frozenset(),
        b=frozenset(),
        place=Place(at),
    )
    other = replace(own, title=say("input"), short_fix=short_fix, place=Place(SENT))
    group = CauseGroup(
        kind=DTYPE,
        title=own.title,
        cause=own,
        further=(other,),
        frequent=(other,),
        graphs=("a", "b"),
        compiles=2,
        spent=Spent(()),
        expected=False,
        proved=True,
        place=own.place,
    )
    settings = [SettingRecord("t.py", line, f, "untyped", "") for line, f in calls]
    return group, with_makers([group], [SimpleNamespace(settings=settings)])[0]


def test_types_further_on_follow_from_an_input_that_takes_its_own_from_values():
    _, found = beside("f64 -> f32", (7, "load"), (8, "load"))
    assert found.place.line.line == 7
    assert str(found.cause.short_fix) == str(FROM_VALUES.short_fix)
    assert (found.further, found.frequent) == ((), ())


@pytest.mark.parametrize(
    ("title", "calls", "given"),
    [
        ("f32 -> bf16", ((7, "load"),), {}),
        ("f64 -> f32", (), {}),
        ("f64 -> f32", ((7, "load"), (30, "grid")), {}),
        ("f64 -> f32", ((7, "load"),), {"short_fix": say("Another one.")}),
    ],
    ids=["autocast", "none", "two functions", "no input"],
)
def test_other_types_are_told_where_they_begin(title, calls, given):
    group, found = beside(title, *calls, **given)
    assert found == group


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
