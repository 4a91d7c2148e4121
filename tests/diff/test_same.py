"""Whenever the comparison says *same*, XLA agrees: it compiles both and runs them.

``benchmarks/same.py`` asks the same of 10,000 changes of all committed real modules.
"""

from __future__ import annotations

import random
from functools import cache
from pathlib import Path

import pytest
from hlo_strategies import DIALECTS, computations, write
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st
from random_edits import HARMLESS, OTHERS, changed
from real_modules import graph
from xla_oracle import NoAnswerError, Oracle

from xlagraph.canon.form import digest
from xlagraph.canon.labels import Level
from xlagraph.diff import diff_modules
from xlagraph.diff.script import edit_script, replay
from xlagraph.errors import InputError
from xlagraph.graph import Module
from xlagraph.hlo import open_entries, read_module
from xlagraph.hlo.printer import print_module

FIXTURES = Path(__file__).resolve().parents[2] / "fixtures"
slow = settings(
    max_examples=60,
    deadline=None,
    suppress_health_check=[HealthCheck.filter_too_much, HealthCheck.too_slow],
)
seeds = st.integers(0, 2**32)


@pytest.fixture(scope="module")
def oracle():
    with Oracle(seconds=10) as found:
        yield found


def disagreement(oracle: Oracle, text: str, other: str) -> str | None:
    """What XLA says against *same*; None where nobody said so, or XLA cannot tell."""
    try:
        oracle.printed(other)
        diff = diff_modules(read_module(text), read_module(other))
        return oracle.disagreement(diff, text, other) if diff.same else None
    except (NoAnswerError, InputError):
        return None


@slow
@given(computations(runnable=True), DIALECTS, seeds)
def test_written_modules(oracle, made, dialect, seed):
    text = write(made, dialect)
    other, _ = changed(read_module(text), text, random.Random(seed))
    said = disagreement(oracle, text, other)
    assume(said is not None)
    assert not said


REAL = ("jax_while.before", "jax_conditional.before", "jax_scan.before", "jax_sort.before")


@cache
def real(name: str) -> str:
    if ":" in name:
        return print_module(graph(name))
    (entry,) = open_entries(str(FIXTURES / "corpus" / f"{name}.hlo.gz")).entries
    return entry.source().text


@pytest.mark.parametrize("name", [*REAL, "carry:B"])
def test_real_modules(name, oracle):
    text = real(name)
    module = read_module(text)
    said = [
        disagreement(oracle, text, changed(module, text, random.Random(seed))[0])
        for seed in range(25)
    ]
    assert set(said) <= {None, ""}
    assert said.count("") > 3


@pytest.mark.parametrize("edit", [*HARMLESS, *OTHERS], ids=lambda edit: edit.__name__)
def test_every_change(edit, oracle):
    """Each kind of change alone: some has no meaning, and no meaning is lost."""
    found = []
    for name in REAL[:3]:
        text = real(name)
        for seed in range(4):
            edited = edit(read_module(text), random.Random(seed))
            if edited is not None:
                found.append(disagreement(oracle, text, print_module(edited)))
    assert set(found) <= {None, ""}
    if edit in HARMLESS:
        assert "" in found


def test_the_oracle_can_say_no(oracle):
    """Pairs that differ are told apart by it, though nothing here is asked."""
    text = "HloModule m\nENTRY e {\n  p = f32[4] parameter(0)\n  ROOT r = f32[4] negate(p)\n}\n"
    same = diff_modules(read_module(text), read_module(text))
    assert oracle.disagreement(same, text, text) == ""
    assert oracle.disagreement(same, text, text.replace("negate", "abs")) == "output 0 differs"
    sent = text.replace("  ROOT", "  t = token[] after-all()\n  o = token[] outfeed(p, t)\n  ROOT")
    assert "outfeed" in oracle.disagreement(same, text, sent)
    with pytest.raises(NoAnswerError):
        oracle.printed("HloModule m\nENTRY e {")


# -- pairs that were called the same ---------------------------------------------------------

LAYOUT = """HloModule m, entry_computation_layout={{(f32[4,8]{}, f32[8]{{0}})->{}}}

ENTRY e {{
  a = f32[4,8]{{1,0}} parameter(0)
  b = f32[8]{{0}} parameter(1)
  ROOT s = f32[4,8]{{1,0}} sine(a)
}}
"""


def modules(*texts: str) -> list[Module]:
    return [read_module(text) for text in texts]


def test_an_asked_for_layout_is_a_difference():
    plain = LAYOUT.format("{1,0}", "f32[4,8]{1,0}")
    left_out = LAYOUT.format("", "f32[4,8]")
    without = plain.replace(plain[plain.index(",") : plain.index("\n")], "", 1)
    a, same, none = modules(plain, left_out, without)
    assert diff_modules(a, same).same
    assert diff_modules(a, none).same
    assert digest(a, Level.NAMES) == digest(same, Level.NAMES) == digest(none, Level.NAMES)
    for other in (LAYOUT.format("{0,1}", "f32[4,8]{1,0}"), LAYOUT.format("", "f32[4,8]{0,1}")):
        (b,) = modules(other)
        diff = diff_modules(a, b)
        assert not diff.same
        assert [change.field for change in diff.header] == ["entry_computation_layout"]
        assert not diff.changes
        assert not diff_modules(b, none).same
        for level in Level:
            if Level.TEXT < level < Level.SHAPES:
                assert digest(a, level) != digest(b, level)
        assert digest(a, Level.SHAPES) == digest(b, Level.SHAPES)


def test_asked_for_layouts_go_with_their_parameters():
    """The same parameters at other positions ask for the same."""
    text = (
        "HloModule m, entry_computation_layout={{({})->f32[4,8]{{1,0}}}}\nENTRY e {{\n"
        "  a = f32[4,8] parameter({})\n  b = f32[4,8] parameter({})\n"
        "  c = f32[4,8] sine(b)\n  ROOT s = f32[4,8] subtract(a, c)\n}}\n"
    )
    a, b, c = modules(
        text.format("f32[4,8]{0,1}, f32[4,8]{1,0}", 0, 1),
        text.format("f32[4,8]{1,0}, f32[4,8]{0,1}", 1, 0),
        text.format("f32[4,8]{0,1}, f32[4,8]{1,0}", 1, 0),
    )
    assert diff_modules(a, b).same
    assert digest(a, Level.PARAMETER_ORDER) == digest(b, Level.PARAMETER_ORDER)
    assert not diff_modules(a, c).same
    assert digest(a, Level.PARAMETER_ORDER) != digest(c, Level.PARAMETER_ORDER)


def test_asked_for_layouts_go_with_their_outputs():
    text = (
        "HloModule m, entry_computation_layout={{(f32[4,8]{{1,0}})->({})}}\nENTRY e {{\n"
        "  a = f32[4,8] parameter(0)\n  c = f32[4,8] sine(a)\n  d = f32[4,8] cosine(a)\n"
        "  ROOT s = (f32[4,8], f32[4,8]) tuple({})\n}}\n"
    )
    a, b = modules(
        text.format("f32[4,8]{0,1}, f32[4,8]{1,0}", "c, d"),
        text.format("f32[4,8]{1,0}, f32[4,8]{0,1}", "d, c"),
    )
    (c,) = modules(text.format("f32[4,8]{0,1}, f32[4,8]{1,0}", "d, c"))
    assert not diff_modules(a, b).header
    assert digest(a, Level.OUTPUT_ORDER) == digest(b, Level.OUTPUT_ORDER)
    assert diff_modules(a, c).header
    assert digest(a, Level.OUTPUT_ORDER) != digest(c, Level.OUTPUT_ORDER)


def test_a_layout_that_instructions_have_is_told_there_alone():
    text = LAYOUT.format("{1,0}", "f32[4,8]{1,0}")
    a, b = modules(text, text.replace("f32[4,8]{1,0}", "f32[4,8]{0,1}"))
    diff = diff_modules(a, b)
    assert not diff.header
    assert {change.fields for change in diff.changes} == {("layout",)}


def test_an_entry_layout_of_another_module_is_compared_as_text():
    text = LAYOUT.format("{1,0}", "f32[4,8]{1,0}")
    a, b = modules(text, text.replace("f32[8]{0})", "f32[9]{0})"))
    assert not diff_modules(a, b).same
    assert diff_modules(b, b).same
    assert digest(a, Level.NAMES) != digest(b, Level.NAMES)


ORDER = """HloModule m
s {{
  a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT r = f32[] add(a, b)
}}
ENTRY e {{
  p = f32[4] parameter(0)
{}
  ROOT t = (f32[4], f32[4]) tuple(x, y)
}}
"""
FIRST = "  x = f32[4] all-reduce(p), channel_id={}, replica_groups={{{{0,1}}}}, to_apply=s"
SECOND = "  y = f32[4] all-reduce(p), channel_id={}, replica_groups={{{{0}},{{1}}}}, to_apply=s"


def in_order(*lines: str) -> str:
    return ORDER.format("\n".join(lines))


def test_the_order_of_collectives_is_a_difference():
    a, b = modules(
        in_order(FIRST.format(1), SECOND.format(2)), in_order(SECOND.format(2), FIRST.format(1))
    )
    diff = diff_modules(a, b)
    assert not diff.same
    assert not diff.differing
    assert [a.names[x] for x, _ in diff.moved_effects] in (["x"], ["y"])
    assert len(diff_modules(b, a).moved_effects) == 1
    for level in Level:
        if level > Level.TEXT:
            assert digest(a, level) != digest(b, level)
    assert diff_modules(replay(edit_script(diff), a), b).same


def test_channels_are_numbers_and_what_shares_one_counts():
    a, b, shared = modules(
        in_order(FIRST.format(1), SECOND.format(2)),
        in_order(FIRST.format(7), SECOND.format(3)),
        in_order(FIRST.format(1), SECOND.format(1)),
    )
    assert diff_modules(a, b).same
    diff = diff_modules(a, shared)
    assert not diff.same
    assert [change.fields for change in diff.changes] == [("attributes",)]


THREAD = """HloModule m
w {{
  a = f32[4] parameter(0)
  ROOT n = f32[4] negate(a)
}}{}
ENTRY e {{
  p = f32[4] parameter(0)
  s = ((f32[4]), f32[4], s32[]) async-start(p), calls=w{}
  ROOT d = f32[4] async-done(s)
}}
"""


def test_execution_threads_are_a_difference():
    a, main, side = modules(
        THREAD.format("", ""),
        THREAD.format(', execution_thread="main"', ', async_execution_thread="main"'),
        THREAD.format(', execution_thread="side"', ', async_execution_thread="side"'),
    )
    assert diff_modules(a, main).same
    assert digest(a, Level.NAMES) == digest(main, Level.NAMES)
    diff = diff_modules(a, side)
    assert not diff.same
    ((c, d, old, new),) = diff.threads
    assert (a.computations[c].name, side.computations[d].name) == ("w", "w")
    assert (old, new) == ("main", "side")
    assert digest(a, Level.SHAPES) != digest(side, Level.SHAPES)
    only_attribute, only_computation = modules(
        THREAD.format("", ', async_execution_thread="side"'),
        THREAD.format(', execution_thread="side"', ""),
    )
    assert not diff_modules(a, only_attribute).same
    assert not diff_modules(a, only_computation).same
    assert diff_modules(replay(edit_script(diff), a), side).same


CALLS = """HloModule m
set {{
  a = f32[] parameter(0)
  ROOT b = f32[] parameter(1)
}}
mn {{
  a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT r = f32[] minimum(a, b)
}}
ENTRY e {{
  x = f32[8] parameter(0)
  i = s32[1] parameter(1)
  u = f32[1] parameter(2)
  s = f32[8] scatter(x, i, u), update_window_dims={{0}}, inserted_window_dims={{}},
    scatter_dims_to_operand_dims={{0}}, index_vector_dim=0, to_apply={}
  t = f32[8] scatter(x, i, u), update_window_dims={{0}}, inserted_window_dims={{}},
    scatter_dims_to_operand_dims={{0}}, index_vector_dim=0, to_apply=mn
  ROOT r = (f32[8], f32[8]) tuple(s, t)
}}
"""


def test_one_reducer_of_two_differs_in_both_directions():
    a, b = modules(CALLS.format("set"), CALLS.format("mn"))
    assert not diff_modules(a, b).same
    assert diff_modules(a, b).match.to_b == diff_modules(b, a).match.to_a


UNUSED = """HloModule m
f {{
  a = f32[{}] parameter(0)
  ROOT r = f32[4] constant({{1, 2, 3, 4}})
}}
ENTRY e {{
  p = f32[4] parameter(0)
  ROOT c = f32[4] custom-call(p), custom_call_target="t", called_computations={{f}}
}}
"""


def test_parameters_of_callees_that_nobody_uses_are_compared():
    a, b, same = modules(*map(UNUSED.format, (4, 8, 4)))
    assert diff_modules(a, same).same
    diff = diff_modules(a, b)
    assert not diff.same
    assert not diff_modules(b, a).same
    assert [change.fields for change in diff.changes] == [("shape",)]
    assert digest(a, Level.NAMES) != digest(b, Level.NAMES)
