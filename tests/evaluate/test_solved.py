"""Numbers that torch_xla hands in, and that follow from the other text's in ways of their own."""

import pytest

from tests.evaluate.test_handed_in import step
from xlagraph.diff import diff_modules
from xlagraph.evaluate import same_values

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
