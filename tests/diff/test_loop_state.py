"""Where a value stands in what a loop carries means nothing, and XLA agrees."""

from __future__ import annotations

from itertools import permutations

import pytest
from xla_oracle import Oracle

from xlagraph.canon.loops import with_ordered_state
from xlagraph.diff import diff_modules
from xlagraph.explain.noise import noise_in_words
from xlagraph.hlo import read_module
from xlagraph.hlo.printer import print_module

SHAPES = {"i": "s32[]", "x": "f32[4]{0}", "y": "f32[4]{0}", "total": "f32[4]{0}"}
PLAIN = tuple(SHAPES)


@pytest.fixture(scope="module")
def oracle():
    with Oracle(seconds=30) as found:
        yield found


def loop(order=PLAIN, *, difference="%x, %y", returned="total", calls=False):
    """Five turns that double x and add it to the total; y becomes a difference of both."""
    state = f"({', '.join(SHAPES[name] for name in order)})"
    at = {name: order.index(name) for name in order}
    picked = [
        f"  %{name} = {SHAPES[name]} get-tuple-element(%state), index={at[name]}" for name in order
    ]
    f = SHAPES["x"]
    step = [
        f"  %x2 = {f} add(%x, %x)",
        f"  %y2 = {f} subtract({difference})",
        f"  %total2 = {f} add(%total, %x)",
    ]
    values = {"i": "%i2", "x": "%x2", "y": "%y2", "total": "%total2"}
    floats = [name for name in order if name != "i"]
    inner = f"({', '.join(f for _ in floats)})"
    called = []
    if calls:
        given = [f"  %{name} = {f} parameter({k})" for k, name in enumerate(floats)]
        results = ", ".join(values[name] for name in floats)
        called = ["%turn {", *given, *step, f"  ROOT %r = {inner} tuple({results})", "}", ""]
        names = ", ".join(f"%{name}" for name in floats)
        step = [f"  %all = {inner} call({names}), to_apply=%turn"]
        step += [
            f"  {values[name]} = {f} get-tuple-element(%all), index={k}"
            for k, name in enumerate(floats)
        ]
    begun = {"i": "%zero", "x": "%p", "y": "%q", "total": "%start"}
    lines = [
        "HloModule loop",
        "",
        *called,
        "%body {",
        f"  %state = {state} parameter(0)",
        *picked,
        "  %one = s32[] constant(1)",
        "  %i2 = s32[] add(%i, %one)",
        *step,
        f"  ROOT %next = {state} tuple({', '.join(values[name] for name in order)})",
        "}",
        "",
        "%condition {",
        f"  %state = {state} parameter(0)",
        f"  %i = s32[] get-tuple-element(%state), index={at['i']}",
        "  %five = s32[] constant(5)",
        "  ROOT %more = pred[] compare(%i, %five), direction=LT",
        "}",
        "",
        "ENTRY %main {",
        f"  %p = {f} parameter(0)",
        f"  %q = {f} parameter(1)",
        "  %zero = s32[] constant(0)",
        "  %null = f32[] constant(0)",
        f"  %start = {f} broadcast(%null), dimensions={{}}",
        f"  %begun = {state} tuple({', '.join(begun[name] for name in order)})",
        f"  %loop = {state} while(%begun), condition=%condition, body=%body",
        f"  ROOT %result = {f} get-tuple-element(%loop), index={at[returned]}",
        "}",
    ]
    return "\n".join(lines) + "\n"


@pytest.mark.parametrize("calls", [False, True])
@pytest.mark.parametrize("order", list(permutations(PLAIN))[::3])
def test_any_order_of_the_values_is_the_same(order, calls, oracle):
    a, b = loop(calls=calls), loop(order, calls=calls)
    diff = diff_modules(read_module(a), read_module(b))
    assert diff.same
    assert oracle.disagreement(diff, a, b) == ""
    moved = "the values that loops carry in another order"
    assert (moved in noise_in_words(diff.noise)) is (order != PLAIN)


@pytest.mark.parametrize("order", list(permutations(PLAIN))[::5])
def test_another_turn_or_another_result_is_not(order):
    one = read_module(loop())
    other = read_module(loop(order, difference="%y, %x", returned="y"))
    assert not diff_modules(read_module(loop(returned="y")), other).same
    assert not diff_modules(one, read_module(loop(order, returned="x"))).same


@pytest.mark.parametrize("order", list(permutations(PLAIN))[::4])
def test_a_loop_with_its_values_in_order_gives_the_same_result(order, oracle):
    text = loop(order)
    ordered = with_ordered_state(read_module(text))
    again = print_module(ordered)
    diff = diff_modules(read_module(text), read_module(again))
    assert oracle.disagreement(diff, text, again) == ""
    assert print_module(with_ordered_state(ordered)) == again


def test_a_value_that_is_picked_and_not_needed_does_not_matter():
    other = loop(PLAIN[::-1]).replace(
        "  %one = s32[]", "  %idle = f32[4]{0} get-tuple-element(%state), index=1\n  %one = s32[]"
    )
    assert diff_modules(read_module(loop()), read_module(other)).same


def test_a_loop_that_hands_on_its_tuple_is_left_as_it_is():
    text = loop().replace(
        "ROOT %result = f32[4]{0} get-tuple-element(%loop), index=3",
        "ROOT %result = (s32[], f32[4]{0}, f32[4]{0}, f32[4]{0}) copy(%loop)",
    )
    module = read_module(text)
    assert with_ordered_state(module) is module
