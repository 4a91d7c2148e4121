"""Sums over steps that begin with a Python number: ``total = 0``, ``total = total + x``."""

from __future__ import annotations

import pytest

from xlagraph.explain import explain_modules
from xlagraph.hlo import read_module

STEP = (
    "HloModule m\n\nENTRY e {{\n  x = s64[] parameter(0)\n  y = s64[] parameter(1)\n"
    "  found = s64[] maximum(x, y)\n  one = s64[] constant(1)\n{total}\n"
    "  ROOT t = (s64[], s64[]) tuple(total, found)\n}}\n"
)
BEGUN = (
    "  zero = s64[] constant(0)\n  none = s64[] multiply(zero, one)\n"
    "  total = s64[] add(found, none)"
)
GOES_ON = (
    "  last = s64[] parameter(2)\n  own = s64[] multiply({of}, one)\n"
    "  total = s64[] {opcode}(last, own)"
)


def causes(before, after):
    modules = (read_module(STEP.format(total=total), "m") for total in (before, after))
    return [(one.kind.id, one.expected, one.proved) for one in explain_modules(*modules).causes]


def test_a_sum_that_begins_with_a_number_is_the_first_value_of_a_tensor():
    goes_on = GOES_ON.format(of="found", opcode="add")
    assert causes(BEGUN, goes_on) == [("initial-state", True, True)]
    assert causes(goes_on, BEGUN) == [("initial-state", False, True)]


@pytest.mark.parametrize(("of", "opcode"), [("x", "add"), ("found", "maximum")])
def test_what_adds_something_else_or_does_not_add_is_none(of, opcode):
    found = causes(BEGUN, GOES_ON.format(of=of, opcode=opcode))
    assert "initial-state" not in [kind for kind, _, _ in found]
