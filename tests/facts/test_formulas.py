"""What each side computes, as formulas."""

from __future__ import annotations

import pytest

from xlagraph.diff import diff_modules
from xlagraph.explain import explain_modules
from xlagraph.facts.values.formulas import Formulas, formulas, is_of_derivative
from xlagraph.facts.values.notation import unsquared
from xlagraph.hlo import read_module


def both(*pieces, shape="f32[8,10]"):
    """The formulas of two pieces of one line, that end in `r`, over x, y and z."""
    modules = [
        read_module(
            "HloModule m\nadd {\n  a = f32[] parameter(0)\n  b = f32[] parameter(1)\n"
            "  ROOT c = f32[] add(a, b)\n}\nENTRY main {\n"
            f"  x = {shape} parameter(0)\n  y = {shape} parameter(1)\n  z = {shape} parameter(2)\n"
            "  t = f32[] parameter(3)\n  zero = f32[] constant(0)\n"
            + "".join(f"  {line}\n" for line in piece)
            + "  ROOT out = (f32[]) tuple(r)\n}\n"
        )
        for piece in pieces
    ]
    explanation = explain_modules(*modules)
    found = [formulas(explanation.diff, c.a, c.b) for c in explanation.causes]
    return next(((one.a, one.b) for one in found if one), None)


SUM = "s = f32[] reduce(x, zero), dimensions={0,1}, to_apply=add"
END = "r = f32[] tanh(d)"
LOGISTIC = (
    "one = f32[] constant(1)",
    "m = f32[] negate(t)",
    "e = f32[] exponential(m)",
    "p = f32[] add(one, e)",
)
DERIVED = "g = f32[8,10] broadcast(h), dimensions={}", "b = f32[8,10] multiply(g, z)"
TO_ONE = (
    "w = f32[] reduce(b, zero), dimensions={0,1}, to_apply=add",
    "v = f32[] cosine(w)",
    "d = f32[] divide(s, n)",
    "u = f32[] tanh(d)",
    "r = f32[] add(u, v)",
)
MEAN = (*DERIVED, *TO_ONE)
MEAN_BY_N = ("one = f32[] constant(1)", "h = f32[] divide(one, n)", *MEAN)


@pytest.mark.parametrize(
    ("first", "second", "said"),
    [
        (
            (SUM, "k = f32[] constant(0.0125)", "d = f32[] multiply(s, k)", END),
            (SUM, "d = f32[] divide(s, t)", END),
            ("tanh(mean(x))", "tanh(sum(x) / s)"),
        ),
        (
            (SUM, "k = f32[] constant(0.5)", "d = f32[] multiply(s, k)", END),
            (SUM, "d = f32[] divide(s, t)", END),
            ("tanh(sum(x) * 0.5)", "tanh(sum(x) / s)"),
        ),
        (
            (SUM, "u = f32[] subtract(s, t)", "d = f32[] exponential(u)", END),
            (SUM, "u = f32[] subtract(t, s)", "v = f32[] negate(u)", "d = f32[] sqrt(v)", END),
            ("tanh(exp(sum(x) - s))", "tanh(sqrt(-(s - sum(x))))"),
        ),
        (
            (SUM, *LOGISTIC, "l = f32[] divide(one, p)", "d = f32[] multiply(s, l)", END),
            (SUM, "l = f32[] tanh(t)", "d = f32[] multiply(s, l)", END),
            ("sum(x) * sigmoid(s)", "sum(x) * tanh(s)"),
        ),
        (
            (SUM, *LOGISTIC, "l = f32[] divide(p, one)", "d = f32[] multiply(s, l)", END),
            (SUM, "l = f32[] tanh(t)", "d = f32[] multiply(s, l)", END),
            ("sum(x) * ((1 + exp(-s)) / 1)", "sum(x) * tanh(s)"),
        ),
        (
            (SUM, "n = f32[] reduce(y, zero), dimensions={0,1}, to_apply=add", *MEAN_BY_N),
            (SUM, "n = f32[] constant(80)", "h = f32[] constant(0.0125)", *MEAN),
            ("sum(x) / sum(y)", "mean(x)"),
        ),
    ],
)
def test_a_short_formula_tells_what_differs(first, second, said):
    assert both(first, second) == said


def test_a_long_formula_is_not_told():
    chain = [f"c{k} = f32[] cosine(c{k - 1})" for k in range(1, 12)]
    long = (SUM, "c0 = f32[] sine(s)", *chain, "d = f32[] add(c11, t)", END)
    assert both((SUM, "d = f32[] negate(s)", END), long) is None


def test_what_stands_in_both_alike_is_no_formula():
    same = (SUM, "d = f32[] negate(s)", END)
    assert both(same, same) is None


def test_a_formula_that_hides_what_its_side_alone_computes_is_not_told():
    """Here ``-y`` would be told, where y is what only the second computes."""
    first = (SUM, "n = f32[] negate(s)", END.replace("d", "n"))
    second = (SUM, "u = f32[] cosine(t)", "n = f32[] negate(u)", END.replace("d", "n"))
    told = both(first, second)
    assert told is None or "cos" in told[1]


def of_all(first: str, second: str) -> tuple[str, str] | None:
    """What is told of all that is handed to a call."""
    a, b = (
        read_module(
            "HloModule m\nf {\n  a = f32[] parameter(0)\n  ROOT c = f32[] tanh(a)\n}\n"
            "ENTRY main {\n  t = f32[] parameter(0)\n  k = f32[] constant(64)\n"
            "  o = f32[] constant(0)\n  d = f32[] multiply(t, k)\n  u = f32[] maximum(d, o)\n"
            f"  c = f32[] call({taken}), to_apply=f\n"
            "  ROOT out = (f32[], f32[]) tuple(c, u)\n}\n"
        )
        for taken in (first, second)
    )
    found = formulas(diff_modules(a, b), range(len(a)), range(len(b)))
    return (found.a, found.b) if found else None


def test_bare_numbers_are_no_formulas():
    """They stand in a piece that is more than them: ``0 became 64`` says nothing of it."""
    assert of_all("o", "k") is None


def test_a_number_in_place_of_a_computed_value_is_told():
    assert of_all("o", "d") == ("0", "s * 64")


def test_a_number_of_python_alone_says_nothing_of_a_piece():
    assert of_all("o", "t") is None
    assert of_all("d", "t") is None


def test_a_value_of_constants_alone_does_not_tell_what_it_stands_for():
    zeros = ("k = f32[8,10] broadcast(zero), dimensions={}", SUM.replace("(x,", "(k,"))
    second = (SUM, "d = f32[] cosine(s)", END)
    assert both((*zeros, "d = f32[] cosine(s)", END), second) is None
    other = ("m = f32[8,10] sine(x)", SUM.replace("(x,", "(m,"), "d = f32[] cosine(s)", END)
    assert both(other, second) is not None


@pytest.mark.parametrize(
    ("texts", "told"),
    [
        (("1 / sum(mask)", "0.0139"), True),
        (("0.5", "0.25"), True),
        (("0", "params['h0']"), False),
        (("sum(x) / n", "mean(x)"), False),
    ],
)
def test_a_parameter_in_place_of_a_number_is_no_derivative(texts, told):
    assert is_of_derivative(Formulas(*texts, ())) is told


def test_a_long_factor_that_is_multiplied_by_itself_is_squared() -> None:
    total = SUM.replace("(x,", "(q,")
    plain = ("q = f32[8,10] tanh(x)", total, "r = f32[] tanh(s)")
    error = ("d = f32[8,10] sine(y)", "e = f32[8,10] subtract(d, z)")
    squared = (*error, "q = f32[8,10] multiply(e, e)", total, "r = f32[] tanh(s)")
    assert both(plain, squared) == ("sum(tanh(x))", "sum((sin(x) - y)**2)")


@pytest.mark.parametrize(
    ("one", "other", "roots"),
    [
        ("slice(x) * slice(x)", "(sum(x * y) / sum(y))**2", ("slice(x)", "sum(x * y) / sum(y)")),
        ("x * x", "y**2", ("x", "y")),
        ("(x + y) * (x + y)", "f(x)(y)**2", None),
        ("x * x", "y * z", None),
        ("f(x) + f(y) * f(x) + f(y)", "y**2", None),
        ("x + y**2", "y**2", None),
        ("(x)(y)**2", "y**2", None),
    ],
)
def test_two_squares_are_told_by_what_is_squared(one, other, roots):
    assert unsquared(one, other) == (roots or (one, other))
