"""Causes that come of an option: the line is that of the program which sets it."""

from __future__ import annotations

import pytest

from xlagraph.cause.model import Context, Setting
from xlagraph.cause.verdict import Place
from xlagraph.explain import explain_modules
from xlagraph.explain.settings import cited, set_there, settings_of
from xlagraph.hlo import read_module
from xlagraph.message import SourceLine

STEP = """HloModule step
ENTRY main {
  running = f32[] parameter(0)
  mean = f32[] parameter(1)
  one = f32[] constant(1)
  part = f32[] constant(PART), metadata={METADATA}
  rest = f32[] subtract(one, part)
  kept = f32[] multiply(running, rest)
  new = f32[] multiply(mean, part)
  ROOT sum = f32[] add(kept, new)
}
"""
METADATA = 'op_type="xla__moving_average" source_file="net.py" source_line=5'
LINE = "x.py:7 in step(), which sets .momentum"


def setting(line, value="", function="step", option="momentum", file="x.py"):
    return Setting(SourceLine(file, line, function), option, value)


def cause_of(*settings):
    def module(part):
        return read_module(STEP.replace("PART", part).replace("METADATA", METADATA), "a")

    program = {"x.py": {6: "for m in mods:", 7: "    m.momentum = number", 8: ""}}
    context = Context(settings=settings, program=program)
    (cause,) = explain_modules(module("0.5"), module("0.35"), context, context).causes
    return cause


def test_the_line_that_sets_it_is_where_it_is():
    cause = cause_of(setting(7))
    assert str(cause.place.in_short) == LINE
    assert str(cause.place.within) == ": x.py:7 in step() sets .momentum"
    assert [number for number, _ in cause.place.source] == [6, 7, 8]
    assert str(cause.evidence[-1].text) == ".momentum is set"
    assert str(cause.lines[0]) == "net.py:5", "what differs stays the first that is cited"
    assert "net.py:5" in str(cause.title)


@pytest.mark.parametrize(
    "others",
    [
        [setting(9, "0.01")],
        [setting(3, "0.01", "init", file="y.py")],
        [setting(9, "False", "main", "training")],
        [setting(2, "", "main", "requires_grad")],
        [setting(2, function="__init__")],
    ],
)
def test_numbers_of_other_functions_and_other_options_leave_it_so(others):
    assert str(cause_of(setting(7), *others).place.in_short) == LINE


def test_lines_of_one_function_are_one_place_and_those_of_several_are_cited():
    assert str(cause_of(setting(7), setting(9)).place.in_short) == LINE
    for other in (setting(9, function="main"), setting(7, file="y.py")):
        cause = cause_of(setting(7), other)
        assert str(cause.place.in_short) == "net.py:5"
        lines = [one.sources for one in cause.evidence[-2:]]
        assert lines == [(setting(7).line,), (other.line,)]
    alone = [setting(line, function="<module>") for line in (7, 9)]
    assert str(cause_of(*alone).place.in_short) == "net.py:5"
    many = cause_of(*(setting(7, function=f"f{n}") for n in range(5)))
    assert str(many.evidence[-1].text) == "the same at 2 further places"


@pytest.mark.parametrize(
    "settings",
    [
        [],
        [setting(7, "0.01")],
        [setting(7, "1"), setting(9, "1")],
        [setting(7, function="__init__")],
    ],
)
def test_one_number_is_no_schedule(settings):
    cause = cause_of(*settings)
    assert str(cause.place.in_short) == "net.py:5"
    assert len(cause.evidence) == 1


def test_what_an_option_is_at_first_changes_nothing_alone():
    def known(*settings):
        return settings_of("training", (Context(settings=settings), Context()))

    on = setting(3, "True", "main", "training")
    off = setting(9, "False", "evaluate", "training")
    assert known(on) == ()
    assert known(on, off) == (on, off)
    assert known(off) == (off,)


def test_what_an_evaluation_sets_back_and_what_is_set_once_is_no_place():
    frozen = [setting(3, "False", "__init__", "requires_grad")]
    evaluated = [setting(n, v, "evaluate", "training") for n, v in ((3, "False"), (9, "True"))]
    switched = [setting(n, v, "train", "training") for n, v in ((3, "True"), (9, "False"))]
    contexts = Context(), Context()
    for settings, line in ((frozen, 1), (evaluated, 1), (switched, 9)):
        assert set_there(Place(SourceLine("x.py", 1)), settings, contexts).line.line == line
    assert [str(one.text) for one in cited(switched)] == [
        ".training is set to True",
        ".training is set to False",
    ]
