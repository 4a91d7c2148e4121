"""Operands that change places and give the same, bit for bit; look-alikes that do not."""

from __future__ import annotations

import pytest

from xlagraph.cause.model import Context
from xlagraph.explain import explain_modules
from xlagraph.hlo import read_module

START = (
    "a = {t}[4] parameter(0)",
    "b = {t}[4] parameter(1)",
    "n = {t}[] constant({one})",
    "ones = {t}[4] broadcast(n), dimensions={{}}",
    "u = {t}[4] multiply(a, b)",
    "v = {t}[4] subtract(a, b)",
    "w = {t}[4] negate(a)",
)
PLAIN = ("s = {t}[4] add(u, v)",)
TURNED = ("s = {t}[4] add(v, u)",)
ALPHA = ("x = {t}[4] multiply(v, ones)", "s = {t}[4] add(u, x)")
ALPHA_TURNED = ("x = {t}[4] multiply(u, ones)", "s = {t}[4] add(v, x)")
THREE = ("r = {t}[4] add(u, v)", "s = {t}[4] add(r, w)")
THREE_TURNED = ("r = {t}[4] add(v, u)", "s = {t}[4] add(w, r)")
REGROUPED = ("r = {t}[4] add(v, w)", "s = {t}[4] add(u, r)")


def module(sums, name="jit_step", file="", dtype="f32", one="1"):
    at = f', metadata={{op_name="jit/op" source_file="{file}" source_line=3}}' if file else ""
    lines = [line.format(t=dtype, one=one) for line in (*START, *sums)]
    body = "".join(f"  {line}{at if 'parameter' not in line else ''}\n" for line in lines)
    root = f"ROOT r0 = ({dtype}[4]) tuple(s)"
    return read_module(f"HloModule {name}\nENTRY main {{\n{body}  {root}\n}}\n")


def versions(first, other, **told):
    return explain_modules(module(first, **told), module(other, name="jit_learn", **told))


@pytest.mark.parametrize(
    ("first", "other"),
    [(PLAIN, TURNED), (ALPHA, ALPHA_TURNED), (THREE, THREE_TURNED), (THREE_TURNED, THREE)],
)
def test_two_operands_of_a_sum_may_change_places(first, other):
    found = versions(first, other)
    assert (found.same, found.proved) == (True, True)
    assert str(found.verdict.what).startswith("Same computation: ")
    assert str(found.causes[0].fix).startswith("None needed")
    assert any("the result is the same; " in str(one.text) for one in found.causes[0].evidence)


@pytest.mark.parametrize(
    ("first", "other", "told"),
    [
        (ALPHA, ALPHA_TURNED, {"one": "2"}),
        (("s = {t}[4] subtract(u, v)",), ("s = {t}[4] subtract(v, u)",), {}),
        (("s = {t}[4] divide(u, v)",), ("s = {t}[4] divide(v, u)",), {}),
        (PLAIN, ("s = {t}[4] add(u, u)",), {}),
        (ALPHA, ("x = {t}[4] multiply(u, ones)", "s = {t}[4] add(u, x)"), {}),
    ],
)
def test_other_values_are_another_computation(first, other, told):
    assert not versions(first, other, **told).same


def test_other_groups_give_the_same_values_but_for_rounding():
    found = versions(THREE, REGROUPED)
    assert (found.same, found.evaluated > 0) == (True, True)
    assert [str(cause.kind) for cause in found.causes] == ["reordered-sum"]


def test_whole_numbers_may_be_added_in_any_order():
    assert versions(THREE, REGROUPED, dtype="s32").same


def test_beside_an_edit_the_exchange_is_one_cause_of_two():
    edited = tuple(line.replace("subtract", "add") for line in START)
    lines = [line.format(t="f32", one="1") for line in (*edited, *TURNED)]
    body = "".join(f"  {line}\n" for line in lines)
    root = "ROOT r0 = (f32[4]) tuple(s)"
    other = read_module(f"HloModule jit_learn\nENTRY main {{\n{body}  {root}\n}}\n")
    found = explain_modules(module(PLAIN), other)
    assert not found.same
    assert not str(found.causes[0].fix).startswith("None needed")


def test_where_nothing_tells_versions_from_steps_both_are_told():
    found = explain_modules(module(PLAIN), module(TURNED))
    said = "The same computation; add takes the same values in another order."
    assert (found.same, str(found.verdict.what)) == (True, said)
    assert "XLA compiles each order by itself all the same" in str(found.verdict.notes[0])
    assert "Between steps of one program" in str(found.causes[0].fix)


def test_lines_of_one_file_may_be_of_steps():
    found = explain_modules(module(PLAIN, file="a.py"), module(TURNED, file="a.py"))
    said = "The same computation; an operation takes its values in another order."
    assert (found.same, str(found.verdict.what)) == (False, said)
    assert "Steps of one program: keep the order" in str(found.verdict.fix)


def test_steps_of_one_run_compile_again():
    found = explain_modules(module(ALPHA), module(ALPHA_TURNED), Context(key={"graph_hash": "1"}))
    said = "An operation takes its values in another order."
    assert (found.same, str(found.verdict.what)) == (False, said)
    assert [str(cause.kind) for cause in found.causes] == ["reordered-operands"]
