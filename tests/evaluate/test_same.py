"""Two modules that give the same values, and edits after which they do not."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest
from evaluate_edits import (
    COMMUTATIVE,
    commuted,
    live,
    reassociated,
    with_attributes,
    with_operands,
    with_payload,
    without_term,
)
from module_edits import with_parameters_permuted
from real_modules import real_texts

from xlagraph.diff import diff_modules
from xlagraph.evaluate import NotEvaluatedError, evaluate, same_values
from xlagraph.evaluate.budget import Budget
from xlagraph.evaluate.domains import Assumed
from xlagraph.evaluate.pairing import inputs
from xlagraph.evaluate.program import Program
from xlagraph.hlo import read_module

TEXTS = real_texts()
NAMES = (
    "accumulated_adam:096a81",
    "clip_late:ddc5a3",
    "detach_late:a4797c",
    "layer_drop:dbddc9",
    "focal_exponent:d8c54c",
)


def real(name):
    return read_module(TEXTS[name], name)


def same(a, b):
    return same_values(diff_modules(a, b))


@pytest.mark.parametrize("name", NAMES)
def test_the_order_of_operands_gives_the_same_values(name):
    module = real(name)
    assert same(module, commuted(module))


@pytest.mark.parametrize("name", NAMES)
def test_the_order_of_sums_gives_the_same_values(name):
    module = real(name)
    edited = reassociated(module)
    assert edited is None or same(module, edited)


def test_outputs_may_come_in_any_order():
    found = same(real("outputs_moved.a.hlo.gz:1"), real("outputs_moved.b.hlo.gz:1"))
    assert found.moved_outputs == 4


@pytest.mark.parametrize("name", NAMES)
def test_other_constants_give_other_values(name):
    module = real(name)
    numbers = [i for i in live(module, "constant") if _is_number(module, i)]
    for i in numbers[:: max(1, len(numbers) // 6)]:
        assert not same(module, with_payload(module, i, str(float(module.payloads[i]) * 1.001)))


def _is_number(module, i):
    try:
        value = float(module.payloads[i])
    except ValueError:
        return False
    return module.shapes[i].startswith("f32") and 1e-6 < abs(value) < 1e6 and value != 1


@pytest.mark.parametrize("name", NAMES)
def test_a_sum_without_its_second_term_gives_other_values(name):
    module = real(name)
    sums = [i for i in live(module, "add") if module.shapes[i].startswith("f32[")]
    sums = [i for i in sums if not _is_nothing(module, module.operands[i][1])]
    for i in sums[:: max(1, len(sums) // 5)]:
        if i not in module.outputs:
            assert not same(module, without_term(module, i)), module.names[i]


def _is_nothing(module, i):
    """Whether it is a broadcast 0, as far as the text tells."""
    while module.opcodes[i] in ("broadcast", "reshape", "multiply"):
        i = module.operands[i][-1]
    return module.payloads.get(i) == "0"


@pytest.mark.parametrize("opcode", ["tanh", "dot", "subtract", "exponential", "divide"])
def test_another_opcode_gives_other_values(opcode):
    for name in NAMES:
        module = real(name)
        for i in live(module, opcode)[:1]:
            if opcode in ("tanh", "exponential"):
                opcodes = list(module.opcodes)
                opcodes[i] = "sine"
                assert not same(module, _with_opcodes(module, opcodes))
            elif opcode != "dot":
                x, y = module.operands[i]
                found = same(module, with_operands(module, {i: (y, x)}))
                assert not found or found.handed_in, "another number is handed in"


def _with_opcodes(module, opcodes):
    from dataclasses import replace

    return replace(module, opcodes=opcodes)


def step(*lines, shape="f32[4,4]", root="r"):
    body = "".join(f"  {line}\n" for line in lines)
    return read_module(
        f"HloModule m\nENTRY e {{\n  x = {shape} parameter(0)\n  y = {shape} parameter(1)\n{body}"
        f"  ROOT t = ({shape}) tuple({root})\n}}\n",
        "m",
    )


SELECTED = (
    "c = pred[4,4] compare(x, y), direction=LT",
    "r = f32[4,4] select(c, x, y)",
)
FORMS = {
    "select turned": (
        SELECTED,
        (SELECTED[0], "n = pred[4,4] not(c)", "r = f32[4,4] select(n, y, x)"),
    ),
    "minimum": (SELECTED, ("r = f32[4,4] minimum(x, y)",)),
    "silu": (
        ("s = f32[4,4] logistic(x)", "r = f32[4,4] multiply(s, x)"),
        (
            "n = f32[4,4] negate(x)",
            "e = f32[4,4] exponential(n)",
            "o = f32[] constant(1)",
            "b = f32[4,4] broadcast(o), dimensions={}",
            "d = f32[4,4] add(b, e)",
            "r = f32[4,4] divide(x, d)",
        ),
    ),
    "products of transposed": (
        ("r = f32[4,4] dot(x, y), lhs_contracting_dims={1}, rhs_contracting_dims={0}",),
        (
            "s = f32[4,4] transpose(x), dimensions={1,0}",
            "r = f32[4,4] dot(s, y), lhs_contracting_dims={0}, rhs_contracting_dims={0}",
        ),
    ),
}


@pytest.mark.parametrize("name", FORMS)
def test_another_form_gives_the_same_values(name):
    assert same(*(step(*form) for form in FORMS[name]))


def other(text, old, new):
    """A module's lines with something else in one of them."""
    assert old in text
    return tuple(line.replace(old, new) for line in text.splitlines())


STEP = """\
z = f32[] constant(0)
b = f32[4,4] broadcast(z), dimensions={}
k = pred[4,4] compare(x, b), direction=GT
m = f32[4,4] select(k, y, x)
s = f32[2,4] slice(m), slice={[0:2], [0:4]}
e = f32[] constant(1e-08)
f = f32[4,4] broadcast(e), dimensions={}
q = f32[4,4] sqrt(y)
w = f32[4,4] add(q, f)
v = f32[4,4] divide(m, w)
p = f32[4,4] transpose(v), dimensions={1,0}
d = f32[4,4] dot(v, p), lhs_contracting_dims={1}, rhs_contracting_dims={1}
r = f32[4,4] multiply(d, v)"""
OTHERS = {
    "LT for GT": ("direction=GT", "direction=LT"),
    "GE for GT": ("direction=GT", "direction=GE"),
    "axis": ("rhs_contracting_dims={1}", "rhs_contracting_dims={0}"),
    "epsilon": ("1e-08", "1e-07"),
    "operand": ("dot(v, p)", "dot(m, p)"),
    "function": ("sqrt(y)", "rsqrt(y)"),
}


@pytest.mark.parametrize("name", OTHERS)
def test_an_edit_that_matters_gives_other_values(name):
    a, b = step(*STEP.splitlines()), step(*other(STEP, *OTHERS[name]))
    again = step(*other(STEP, "select(k, y, x)", "select(k, y, b)"))
    assert same(a, commuted(a))
    found = same(a, b)
    assert found is None or (name == "GE for GT" and found.parts_at_zero)
    assert not same(a, again)


def test_forms_that_overflow_are_the_same_but_for_that():
    stable = ("r = f32[4,4] logistic(x)",)
    other_form = (
        "e = f32[4,4] exponential(x)",
        "o = f32[] constant(1)",
        "b = f32[4,4] broadcast(o), dimensions={}",
        "d = f32[4,4] add(b, e)",
        "r = f32[4,4] divide(e, d)",
    )
    found = same(step(*stable), step(*other_form))
    assert found.parts_at_large
    assert found.points == 6


def test_what_no_argument_reaches_is_not_taken_for_equal():
    far = ("c = f32[] constant(1e30)", "b = f32[4,4] broadcast(c), dimensions={}")
    a = step(*far, "r = f32[4,4] minimum(x, b)")
    b = step(far[0].replace("1e30", "1e31"), far[1], "r = f32[4,4] minimum(x, b)")
    assert not same(a, b)


@pytest.mark.parametrize(("bound", "is_same"), [("2147483647", True), ("2147483646", False)])
def test_a_counter_that_stops_where_its_type_ends_is_a_counter(bound, is_same):
    plain = """HloModule m
ENTRY e {
  n = s32[] parameter(0)
  x = f32[4] parameter(1)
  one = s32[] constant(1)
  next = s32[] add(n, one)
  c = f32[] convert(next)
  b = f32[4] broadcast(c), dimensions={}
  y = f32[4] multiply(x, b)
  ROOT r = (s32[], f32[4]) tuple(next, y)
}
"""
    stops = plain.replace(
        "next = s32[] add(n, one)",
        f"""end = s32[] constant({bound})
  more = s32[] add(n, one)
  runs = pred[] compare(n, end), direction=LT
  next = s32[] select(runs, more, end)""",
    )
    assert bool(same(read_module(plain, "a"), read_module(stops, "b"))) is is_same


def test_types_donation_and_effects_have_to_be_alike():
    a = step("r = f32[4,4] add(x, y)")
    assert not same(a, step("r = bf16[4,4] add(x, y)", shape="bf16[4,4]"))
    text = "HloModule m, buffer_donor={ (0, {}) }\n"
    form = (
        "ENTRY e {\n  x = f32[4] parameter(0)\n  y = f32[4] parameter(1)\n  s = f32[4] add(x, y)\n"
    )
    plain = f"{form}  r = f32[4] add(s, x)\n  ROOT t = (f32[4]) tuple(r)\n}}\n"
    turned = plain.replace("add(s, x)", "add(x, s)")
    assert same(read_module(text + plain, "a"), read_module(text + turned, "b"))
    assert not same(read_module(text + plain, "a"), read_module("HloModule m\n" + turned, "b"))


def test_parameters_may_be_numbered_otherwise():
    a = step("s = f32[4,4] subtract(x, y)", "r = f32[4,4] multiply(s, x)")
    b = step("s = f32[4,4] subtract(y, x)", "n = f32[4,4] negate(s)", "r = f32[4,4] multiply(x, n)")
    assert same(a, b).parameters == (0, 1)
    moved = same(a, with_parameters_permuted(b, 1))
    assert sorted(moved.parameters) == [0, 1]


HOSTILE = {
    "large": "  ROOT r = f32[3000000] broadcast(x), dimensions={}\n",
    "very large": "  ROOT r = f32[99999999,99999999] broadcast(x), dimensions={}\n",
    "wide padding": (
        "  b = f32[2] broadcast(x), dimensions={}\n"
        "  ROOT r = f32[2] pad(b, x), padding=999999999_-999999999\n"
    ),
    "dimensions": "  ROOT r = f32[2] broadcast(x), dimensions={7}\n",
    "dot": (
        "  a = f32[1000000] broadcast(x), dimensions={}\n"
        "  ROOT r = f32[4] dot(a, a), lhs_contracting_dims={}, rhs_contracting_dims={}\n"
    ),
    "unknown": "  ROOT r = f32[] frobnicate(x)\n",
    "rng": "  ROOT r = f32[] rng(x, x), distribution=rng_uniform\n",
    "custom call": '  ROOT r = f32[] custom-call(x), custom_call_target="mine"\n',
    "elided": "  ROOT r = f32[100] constant({...})\n",
    "type": "  ROOT r = s4[] convert(x)\n",
    "dynamic": "  ROOT r = f32[<=4] broadcast(x), dimensions={}\n",
    "endless": "  ROOT r = f32[] while(x), condition=c, body=b\n",
}
BEFORE = """HloModule m
b {
  ROOT x = f32[] parameter(0)
}

c {
  x = f32[] parameter(0)
  ROOT r = pred[] constant(true)
}

ENTRY e {
  x = f32[] parameter(0)
"""


@pytest.mark.parametrize("name", HOSTILE)
def test_what_cannot_be_evaluated_is_told_soon(name):
    module = read_module(BEFORE + HOSTILE[name] + "}\n", name)
    start = time.process_time()
    with pytest.raises(NotEvaluatedError):
        evaluate(module, [1.0])
    assert time.process_time() - start < 5
    assert same_values(diff_modules(module, module)) is None


def test_calls_that_double_are_told_soon():
    lines = ["HloModule m", "f0 {", "  x = f32[] parameter(0)", "  ROOT r = f32[] sine(x)", "}"]
    for k in range(1, 60):
        lines += [f"f{k} {{", "  x = f32[] parameter(0)"]
        lines += [f"  a = f32[] call(x), to_apply=f{k - 1}"]
        lines += [f"  ROOT r = f32[] call(a), to_apply=f{k - 1}", "}"]
    lines += [
        "ENTRY e {",
        "  x = f32[] parameter(0)",
        "  ROOT r = f32[] call(x), to_apply=f59",
        "}",
    ]
    with pytest.raises(NotEvaluatedError, match="too large"):
        evaluate(read_module("\n".join(lines) + "\n", "m"), [1.0])


def test_every_process_says_the_same():
    code = (
        "import json, sys; from xlagraph.hlo import read_module; from xlagraph.diff import *;"
        "from xlagraph.evaluate import same_values; a, b = json.load(sys.stdin);"
        "print(same_values(diff_modules(read_module(a, 'a'), read_module(b, 'b'))))"
    )
    text = TEXTS[NAMES[0]]
    edited = text.replace("multiply(f32[] %", "multiply(f32[] %", 1)
    said = {
        subprocess.run(
            [sys.executable, "-c", code],
            input=json.dumps([text, edited]),
            env={**os.environ, "PYTHONHASHSEED": seed},
            cwd=Path(__file__).parents[2],
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for seed in ("0", "1", "2")
    }
    assert len(said) == 1
    assert next(iter(said)).startswith("SameValues")


def test_there_is_something_to_exchange():
    assert all(live(real(name), *COMMUTATIVE) for name in NAMES)
    assert with_attributes(real(NAMES[0]), live(real(NAMES[0]), "reduce")[0], dimensions="{0}")


def many(names, order):
    """A product of layers whose weights have one shape, in some order of parameters."""
    lines = [f"{name} = f32[4,4] parameter({k})" for k, name in enumerate(names)]
    axes = "lhs_contracting_dims={1}, rhs_contracting_dims={0}"
    value = "x"
    for k, weight in enumerate(order):
        lines += [
            f"d{k} = f32[4,4] dot({value}, {weight}), {axes}",
            f"t{k} = f32[4,4] tanh(d{k})",
        ]
        value = f"t{k}"
    body = "\n".join([*lines, f"ROOT z = (f32[4,4]) tuple({value})"])
    return read_module(f"HloModule m\nENTRY e {{\n{body}\n}}\n")


@pytest.mark.parametrize(
    ("names", "order", "found"),
    [
        ("fcxeabd", "abcdef", (2, 4, 5, 1, 6, 3, 0)),
        ("xabcdef", "abcdfe", (0, 1, 2, 3, 4, 6, 5)),
        ("xabcdef", "abcdee", None),
    ],
)
def test_inputs_of_one_shape_are_paired_by_what_they_do(names, order, found):
    modules = many("xabcdef", "abcdef"), many(names, order)
    asked = inputs.Asked(tuple(map(Program, modules)), Budget(inputs.RESPONSES), Assumed())
    assert next(inputs.by_response(asked), None) == found


MASKED = """HloModule m
ENTRY e {{
  x = f32[3,4] parameter(0)
  k = f32[3,4] parameter(1)
  z = f32[] constant(0)
  zs = f32[3,4] broadcast(z), dimensions={{}}
  p = pred[3,4] compare(k, zs), direction={direction}
  v = f32[3,4] select(p, {picked})
  w = f32[3,4] multiply(v, {factor})
  ROOT r = (f32[3,4]) tuple(w)
}}
"""


def test_a_mask_is_asked_in_two_ways():
    above = MASKED.format(direction="GT", picked="x, zs", factor="k")
    nothing = MASKED.format(direction="EQ", picked="zs, x", factor="k")
    found = same(read_module(above, "a"), read_module(nothing, "b"))
    assert found.assumed == ((1, (0.0, 1.0)),)
    rectified = MASKED.format(direction="GT", picked="k, zs", factor="x")
    plain = rectified.replace("select(p, k, zs)", "add(k, zs)")
    assert not same(read_module(rectified, "a"), read_module(plain, "b"))


SQUARES = """HloModule m
ENTRY e {{
  x = f32[4] parameter(0)
  n = f32[] parameter(1)
  y = f32[4] parameter(2)
  ns = f32[4] broadcast(n), dimensions={{}}
  s = f32[4] multiply(y, ns)
{derivative}
  d = f32[4] multiply(g, s)
  ROOT r = (f32[4], f32[4]) tuple(d, s)
}}
"""


@pytest.mark.parametrize(("own", "found"), [("add(x, x)", ((1, (2.0,)),)), ("tanh(x)", None)])
def test_a_number_that_is_handed_in_once_is_what_the_other_text_has_it_as(own, found):
    a = read_module(SQUARES.format(derivative=f"  g = f32[4] {own}"), "a")
    b = read_module(SQUARES.format(derivative="  g = f32[4] multiply(x, ns)"), "b")
    told = same(a, b)
    assert (told and told.assumed) == found


def test_one_text_may_give_out_more():
    plain = step("s = f32[4,4] sine(x)", "r = f32[4,4] multiply(s, y)")
    turned = "  x = f32[4,4] parameter(0)\n  y = f32[4,4] parameter(1)\n  s = f32[4,4] sine(x)\n"
    more = read_module(
        f"HloModule m\nENTRY e {{\n{turned}  r = f32[4,4] multiply(y, s)\n"
        "  ROOT t = (f32[4,4], f32[4,4]) tuple(s, r)\n}\n",
        "m",
    )
    assert (same(plain, more).outputs, same(plain, more).more_in_b) == ((1,), (0,))
    assert same(more, plain).more_in_a == (0,)
    assert not same(step("r = f32[4,4] add(x, y)"), more)


TAKEN = """HloModule m
ENTRY e {
  x = f32[3,4] parameter(0)
  k = s32[5,1] parameter(1)
  n = s32[] constant(3)
  ns = s32[5,1] broadcast(n), dimensions={}
  z = s32[] constant(0)
  zs = s32[5,1] broadcast(z), dimensions={}
  low = pred[5,1] compare(k, zs), direction=LT
  up = s32[5,1] add(k, ns)
  row = s32[5,1] select(low, up, k)
  g = f32[5,4] gather(x, row), ROWS
  s = f32[5,4] sine(g)
  ROOT r = (f32[5,4]) tuple(s)
}
"""


ROWS = (
    "offset_dims={1}, collapsed_slice_dims={0}, start_index_map={0}, index_vector_dim=1, "
    "slice_sizes={1,4}"
)
TAKEN = TAKEN.replace("ROWS", ROWS)


def test_rows_that_are_picked_are_rows_that_there_are():
    wrapped = read_module(TAKEN, "a")
    plain = read_module(TAKEN.replace("gather(x, row)", "gather(x, k)"), "b")
    assert same(wrapped, plain).in_rows
    other = read_module(TAKEN.replace("gather(x, row)", "gather(x, up)"), "b")
    assert not same(wrapped, other)
    kept = read_module(TAKEN.replace("select(low, up, k)", "select(low, zs, k)"), "b")
    assert not same(kept, plain), "negative ones are asked for here, as labels to leave out are"


COUNTED = """HloModule m
sum {
  p = f32[] parameter(0)
  q = f32[] parameter(1)
  ROOT s = f32[] add(p, q)
}
ENTRY main {
  x = f32[6] parameter(0)
  k = s64[6] parameter(1)
  m = s64[] constant(-100)
  ms = s64[6] broadcast(m), dimensions={}
  is = pred[6] compare(k, ms), direction=NE
  y = f32[6] exponential(x)
  z = f32[] constant(0)
  zs = f32[6] broadcast(z), dimensions={}
  kept = f32[6] select(is, y, zs)
  total = f32[] reduce(kept, z), dimensions={0}, to_apply=sum
  n = f32[6] convert(is)
  count = f32[] reduce(n, z), dimensions={0}, to_apply=sum
  all = f32[] constant(6)
  mean = f32[] divide(total, count)
  ROOT r = (f32[]) tuple(mean)
}
"""


def test_labels_that_are_not_counted_are_among_those_that_are_asked():
    """ignore_index: a mean over the labels that count is none over all of them."""
    a = read_module(COUNTED, "a")
    over_all = read_module(COUNTED.replace("(total, count)", "(total, all)"), "b")
    assert not same(a, over_all)
    turned = COUNTED.replace("n = f32[6] convert(is)", "n = f32[6] select(is, os, zs)")
    turned = turned.replace(
        "  kept =", "  o = f32[] constant(1)\n  os = f32[6] broadcast(o), dimensions={}\n  kept ="
    )
    assert same(a, read_module(turned, "b")).points


LARGEST = """HloModule m
largest {
  p = f32[] parameter(0)
  m = s32[] parameter(1)
  q = f32[] parameter(2)
  n = s32[] parameter(3)
  is = pred[] compare(p, q), direction=GE
  value = f32[] select(is, p, q)
  tied = pred[] compare(p, q), direction=EQ
  first = s32[] minimum(m, n)
  one = s32[] select(is, m, n)
  row = s32[] select(tied, first, one)
  ROOT both = (f32[], s32[]) tuple(value, row)
}
ENTRY e {
  x = f32[6,5] parameter(0)
  y = f32[6,5] parameter(1)
  k = s32[6,5] iota(), iota_dimension=1
  low = f32[] constant(-inf)
  none = s32[] constant(0)
  z = f32[6,5] add(x, y)
  found = (f32[6], s32[6]) reduce(z, k, low, none), dimensions={1}, to_apply=largest
  rows = s32[6] get-tuple-element(found), index=1
  plain = f32[6] convert(rows)
  spread = f32[6,5] broadcast(plain), dimensions={0}
  r = f32[6,5] multiply(spread, z)
  ROOT t = (f32[6,5]) tuple(r)
}
"""


def test_of_equal_fractions_any_may_be_the_largest():
    """The largest of ``x + y`` stands where that of its sigmoid does, if not where it is least."""
    a = read_module(LARGEST, "a")
    of_sigmoid = "s = f32[6,5] logistic(z)\n  found = (f32[6], s32[6]) reduce(s,"
    text = LARGEST.replace("found = (f32[6], s32[6]) reduce(z,", of_sigmoid)
    assert same(a, read_module(text, "b"))
    least = text.replace("direction=GE", "direction=LE").replace("-inf", "inf")
    assert not same(a, read_module(least, "b"))


CHECKED = """
e = f32[4,4] exponential(y)
n = pred[4,4] compare(e, e), direction=NE
z = f32[] constant(0)
b = f32[4,4] broadcast(z), dimensions={}
k = pred[4,4] compare(x, b), direction=EQ
l = f32[4,4] log(e)
m = f32[4,4] multiply(x, l)
s = f32[4,4] select(k, b, m)
r = f32[4,4] select(n, e, s)"""


def test_what_is_no_number_may_stay_none_without_being_asked():
    plain = step(
        "e = f32[4,4] exponential(y)", "l = f32[4,4] log(e)", "r = f32[4,4] multiply(x, l)"
    )
    assert same(step(*CHECKED.strip().splitlines()), plain)
    replaced = CHECKED.replace("select(n, e, s)", "select(n, x, s)")
    assert not same(step(*replaced.strip().splitlines()), plain), "another number is put there"


RING = """HloModule jit_step

ENTRY %step (p: s32[], x: f32[9,4]) -> f32[1,4] {{
  %p = s32[] parameter(0)
  %x = f32[9,4]{{1,0}} parameter(1)
  %zero = s32[] constant(0)
  %five = s32[] constant(5)
  %slot = s32[] remainder(%p, %five)
  %other = s32[] {other}
  %taken = f32[1,4]{{1,0}} dynamic-slice(%x, %slot, %zero), dynamic_slice_sizes={{1,4}}
  %number = f32[] convert(%{used})
  %spread = f32[1,4]{{1,0}} broadcast(%number), dimensions={{}}
  ROOT %r = f32[1,4]{{1,0}} multiply(%taken, %spread)
}}
"""


@pytest.mark.parametrize(("used", "is_same"), [("other", True), ("p", False)])
def test_a_position_in_a_ring_is_asked_beyond_its_end(used, is_same):
    """Up to there the place in the ring is the position, and one stands for the other."""
    before = RING.format(other="add(%slot, %zero)", used="slot")
    after = RING.format(other="add(%zero, %slot)", used=used)
    assert bool(same(read_module(before, "a"), read_module(after, "b"))) == is_same


DECAYED = """HloModule step

ENTRY %main (p: f32[12], g: f32[12]) -> f32[12] {
  %p = f32[12]{0} parameter(0)
  %g = f32[12]{0} parameter(1)
  %rate = f32[] constant(0.003)
  %rates = f32[12]{0} broadcast(f32[] %rate), dimensions={}
  %d = f32[] constant(DECAY)
  %ds = f32[12]{0} broadcast(f32[] %d), dimensions={}
  %decay = f32[12]{0} multiply(f32[12]{0} %ds, f32[12]{0} %p)
  %u = f32[12]{0} TERM
  %scaled = f32[12]{0} multiply(f32[12]{0} %rates, f32[12]{0} %u)
  ROOT %new = f32[12]{0} subtract(f32[12]{0} %p, f32[12]{0} %scaled)
}
"""
WITHOUT, WITH = "sine(f32[12]{0} %g)", "add(f32[12]{0} %sine, f32[12]{0} %decay)"
SINE = "  %sine = f32[12]{0} sine(f32[12]{0} %g)\n"


@pytest.mark.parametrize("decay", ["0.00001", "0.000001", "0.1"])
def test_a_decay_that_rounding_hides_is_not_taken_for_nothing(decay):
    text = DECAYED.replace("DECAY", decay)
    without = read_module(text.replace("TERM", WITHOUT))
    decayed = read_module(text.replace("  %u =", SINE + "  %u =").replace("TERM", WITH))
    assert same(decayed, decayed)
    assert not same(without, decayed)
    assert not same(decayed, without)


CUT = """HloModule rows

%add (x: f32[], y: f32[]) -> f32[] {
  %x = f32[] parameter(0)
  %y = f32[] parameter(1)
  ROOT %sum = f32[] add(f32[] %x, f32[] %y)
}

ENTRY %main (t: f32[7,12], r: s32[5], u: f32[5,1,12]) -> f32[7,12] {
  %t = f32[7,12]{1,0} parameter(0)
  %r = s32[5]{0} parameter(1)
  %u = f32[5,1,12]{2,1,0} parameter(2)
  %column = s32[5,1]{1,0} reshape(s32[5]{0} %r)
  %zero = s32[] constant(0)
  %zeros = s32[5,1]{1,0} broadcast(s32[] %zero), dimensions={}
  %index = s32[5,2]{1,0} concatenate(s32[5,1]{1,0} %column, s32[5,1]{1,0} %zeros), dimensions={1}
  %none = s32[5,2]{1,0} broadcast(s32[] %zero), dimensions={}
  %last = s32[2]{0} constant(BOUND)
  %lasts = s32[5,2]{1,0} broadcast(s32[2]{0} %last), dimensions={1}
  %rows = s32[5,2]{1,0} clamp(s32[5,2]{1,0} %none, s32[5,2]{1,0} %index, s32[5,2]{1,0} %lasts)
  ROOT %new = f32[7,12]{1,0} scatter(f32[7,12]{1,0} %t, s32[5,2]{1,0} INDEX, \
f32[5,1,12]{2,1,0} %u), update_window_dims={1,2}, inserted_window_dims={}, \
scatter_dims_to_operand_dims={0,1}, index_vector_dim=1, to_apply=%add
}
""".replace("\\\n", "")


DEAD = ("  %none", "  %last", "  %rows")


@pytest.mark.parametrize(
    ("bound", "is_same"), [("{6, 0}", True), ("{9, 0}", True), ("{5, 0}", False)]
)
def test_bounds_of_rows_that_are_joined_with_zeros_are_bounds_of_rows(bound, is_same):
    cut = read_module(CUT.replace("BOUND", bound).replace("INDEX", "%rows"))
    others = [line for line in CUT.splitlines() if not line.startswith(DEAD)]
    free = read_module("\n".join(others).replace("INDEX", "%index"))
    found = same(cut, free)
    assert bool(found) is is_same
    assert not is_same or found.in_rows
