"""Numbers that torch_xla hands in, which one text takes otherwise than the other."""

import pytest

from xlagraph.diff import diff_modules
from xlagraph.evaluate import same_values
from xlagraph.hlo import read_module

HEAD = """HloModule {name}
ENTRY e {{
  p = f32[3,4] parameter(0)
  d = f32[3,4] parameter(1)
{body}
  ROOT t = (f32[3,4]) tuple(r)
}}
"""


def step(*lines, name="IrToHlo.1"):
    """A module that computes ``r`` of ``p``, ``d`` and numbers; a number is written as ``s``."""
    body, number = [], 2
    for line in lines:
        if line.isidentifier():
            body.append(f"  {line} = f32[] parameter({number})")
            body.append(f"  {line}s = f32[3,4] broadcast({line}), dimensions={{}}")
            number += 1
        else:
            result, _, rest = line.partition(" = ")
            body.append(f"  {result} = f32[3,4] {rest}")
    return read_module(HEAD.format(name=name, body="\n".join(body)), name)


ADDED = ("a", "m = multiply(d, as)", "r = add(p, m)")
TAKEN_OFF = ("a", "m = multiply(as, d)", "r = subtract(p, m)")
DIVIDED = ("a", "m = divide(d, as)", "r = add(p, m)")
LERP = ("w", "o = subtract(d, p)", "m = multiply(o, ws)", "r = add(p, m)")
MIXED = (
    *("b", "w", "m = multiply(p, bs)", "n = multiply(d, ws)"),
    "r = add(m, n)",
)


def told(one, other, name="IrToHlo.1"):
    found = same_values(diff_modules(step(*one, name=name), step(*other, name=name)))
    return found and [(h.side, h.number, *h.follows, h.other) for h in found.handed_in]


def test_a_number_may_be_handed_in_with_the_other_sign():
    assert told(ADDED, TAKEN_OFF) == [(1, 2, 1, -1.0, 0.0, 2)]
    assert told(TAKEN_OFF, ADDED) == [(1, 2, 1, -1.0, 0.0, 2)]


def test_what_divides_may_be_one_over_what_multiplies():
    assert told(ADDED, DIVIDED) == [(1, 2, -1, 1.0, 0.0, 2)]


@pytest.mark.parametrize("is_turned", [False, True])
def test_one_number_may_be_two(is_turned):
    """``lerp`` takes the weight of the new value, what is written out that of the old one too."""
    pair = (MIXED, LERP) if is_turned else (LERP, MIXED)
    assert told(*pair) == [(0 if is_turned else 1, 2, 1, -1.0, 1.0, 2)]


def test_a_bound_that_bounds_nothing_is_told():
    bounded = ("h", "s = multiply(d, p)", "r = clamp(p, s, hs)")
    plain = ("s = multiply(d, p)", "r = maximum(p, s)")
    found = same_values(diff_modules(step(*plain), step(*bounded)))
    assert [(one.number, one.bounds_nothing) for one in found.handed_in] == [(2, True)]


def test_a_size_may_be_handed_in():
    """A mean of twelve is a sum over a twelfth, or over twelve that is handed in."""
    text = """
  zero = f32[] constant(0)
  o = f32[3,4] multiply(p, d)
  all = f32[] reduce(o, zero), dimensions={{0,1}}, to_apply=add
  {divided}
  r = f32[3,4] multiply(p, sizes)"""
    fixed = """n = f32[] constant(12)
  size = f32[] divide(all, n)
  sizes = f32[3,4] broadcast(size), dimensions={}"""
    handed = """n = f32[] parameter(2)
  wide = f32[3,4] broadcast(all), dimensions={}
  ns = f32[3,4] broadcast(n), dimensions={}
  sizes = f32[3,4] divide(wide, ns)"""
    add = """add {{
  x = f32[] parameter(0)
  y = f32[] parameter(1)
  ROOT z = f32[] add(x, y)
}}
"""
    modules = [
        read_module(
            HEAD.replace("ENTRY", add + "ENTRY").format(
                name="IrToHlo.1", body=text.format(divided=divided)
            ),
            "m",
        )
        for divided in (fixed, handed)
    ]
    found = same_values(diff_modules(*modules))
    assert [(one.side, one.number, one.follows.of(0.0)) for one in found.handed_in] == [
        (1, 2, 12.0)
    ]


@pytest.mark.parametrize(
    "other",
    [
        ("a", "b", "m = multiply(d, as)", "o = add(p, m)", "n = multiply(p, bs)", "r = add(o, n)"),
        (
            "a",
            "b",
            "o = divide(d, bs)",
            "m = multiply(o, as)",
            "k = multiply(m, m)",
            "r = add(p, k)",
        ),
        ("a", "b", "m = multiply(d, as)", "o = subtract(m, bs)", "r = add(p, o)"),
    ],
)
def test_a_number_that_could_only_be_nothing_makes_no_two_modules_alike(other):
    """A number that is 0 or 1 is no input: the other module has a term, or a factor, more."""
    assert told(ADDED, other) is None


def test_numbers_of_other_frameworks_are_arguments():
    assert told(ADDED, TAKEN_OFF, name="jit_step") is None


# -- solved for -----------------------------------------------------------------------------

IN_A_LOGARITHM = ("a", "e = exponential(d)", "m = multiply(e, as)", "n = log(m)")
BESIDE_IT = ("l", "n = add(d, ls)")
"""The same where ``l`` is the logarithm of ``a``."""


def ends(*lines):
    return (*lines, "r = multiply(p, n)")


def found_of(one, other):
    return same_values(diff_modules(step(*ends(*one)), step(*ends(*other))))


@pytest.mark.parametrize("is_turned", [False, True])
def test_a_number_may_be_the_logarithm_of_the_other_one(is_turned):
    pair = (BESIDE_IT, IN_A_LOGARITHM) if is_turned else (IN_A_LOGARITHM, BESIDE_IT)
    told = found_of(*pair).handed_in
    assert sorted((one.side, one.number, one.follows, one.other) for one in told) == [
        (0, 2, None, None),
        (1, 2, None, None),
    ]


def test_a_number_that_nothing_else_fits_is_told():
    sums = ("c = constant(0.3)", "x = multiply(d, c)", "k = constant(0.4)", "n = add(x, k)")
    text = ("a", "b", "x = multiply(d, as)", "y = multiply(as, bs)", "n = add(x, y)")
    spread = [
        line.replace(
            "constant(0.3)", "constant({" + ",".join(["{0.3,0.3,0.3,0.3}"] * 3) + "})"
        ).replace("constant(0.4)", "constant({" + ",".join(["{0.4,0.4,0.4,0.4}"] * 3) + "})")
        for line in sums
    ]
    told = found_of(spread, text).handed_in
    assert [(one.number, round(one.follows.of(0.0), 3)) for one in told] == [(2, 0.3), (3, 1.333)]


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (("n = tanh(d)",), ("a", "m = tanh(d)", "n = multiply(m, as)")),
        (("n = tanh(d)",), ("a", "m = tanh(d)", "k = multiply(d, as)", "n = add(m, k)")),
        (
            ("a", "s = add(p, d)", "n = multiply(s, as)"),
            ("a", "b", "x = multiply(p, as)", "y = multiply(d, bs)", "n = add(x, y)"),
        ),
    ],
    ids=["a factor of 1", "a factor of 0", "one number twice"],
)
def test_what_torch_xla_does_not_hand_in_is_no_solution(one, other):
    assert found_of(one, other) is None


def test_texts_that_no_numbers_let_agree_are_others():
    assert found_of(IN_A_LOGARITHM, ("l", "m = tanh(d)", "n = add(m, ls)")) is None
