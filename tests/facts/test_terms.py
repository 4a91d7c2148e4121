"""Sums of the same terms in any order are found, and nothing else is taken for one."""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from xlagraph.cause.model import Cause
from xlagraph.explain import explain_modules
from xlagraph.hlo import read_module

TERMS = ("add", "multiply", "maximum", "minimum")


def module(lines: list[str], root: str) -> str:
    body = "\n".join(f"  {line}" for line in lines)
    return f"HloModule step\n\nENTRY main {{\n{body}\n  ROOT z = f32[4] tanh({root})\n}}\n"


def written(tree: object, lines: list[str], leaves: list[str]) -> str:
    """Writes the instructions of a tree of operations; returns the name of its value."""
    if isinstance(tree, int):
        return leaves[tree]
    opcode, first, second = tree
    values = written(first, lines, leaves), written(second, lines, leaves)
    name = f"v{len(lines)}"
    lines.append(f"{name} = f32[4] {opcode}({values[0]}, {values[1]})")
    return name


def leaves_of(number: int) -> tuple[list[str], list[str]]:
    """Values that nobody takes for each other: one input, treated in as many ways."""
    lines = ["x = f32[4] parameter(0)"]
    opcodes = ("sine", "cosine", "tanh", "exponential", "negate", "abs", "log", "sqrt")
    for k, opcode in enumerate(opcodes[:number]):
        lines.append(f"l{k} = f32[4] {opcode}(x)")
    return lines, [f"l{k}" for k in range(number)]


def chain(opcode: str, order: list[int]) -> object:
    tree: object = order[0]
    for k in order[1:]:
        tree = (opcode, tree, k)
    return tree


def text(tree: object, number: int) -> str:
    lines, leaves = leaves_of(number)
    return module(lines, written(tree, lines, leaves))


def shuffled(tree: object, rng: random.Random) -> object:
    """The same value by other sums: terms of one operation stand in another order."""
    if isinstance(tree, int):
        return tree
    opcode = tree[0]
    terms = [shuffled(one, rng) for one in flat(tree, opcode)]
    rng.shuffle(terms)
    while len(terms) > 1:
        first = terms.pop(rng.randrange(len(terms)))
        second = terms.pop(rng.randrange(len(terms)))
        terms.append((opcode, first, second))
    return terms[0]


def flat(tree: object, opcode: str) -> list[object]:
    if isinstance(tree, int) or tree[0] != opcode:
        return [tree]
    return flat(tree[1], opcode) + flat(tree[2], opcode)


def said(first: str, second: str) -> tuple[bool, bool, list[str]]:
    explanation = explain_modules(read_module(first, "a"), read_module(second, "b"))
    kinds = [str(cause.kind) for cause in explanation.causes]
    return explanation.diff.same, explanation.proved, kinds


trees = st.recursive(
    st.integers(0, 7), lambda below: st.tuples(st.sampled_from(TERMS), below, below), max_leaves=8
).filter(lambda tree: not isinstance(tree, int))


@given(trees, st.randoms(use_true_random=False))
def test_terms_in_another_order_are_proved(tree, rng):
    same, proved, kinds = said(text(tree, 8), text(shuffled(tree, rng), 8))
    assert same or proved
    assert same or set(kinds) <= {"reordered-sum", "reordered-operands", "repeated-expression"}


@given(st.permutations(range(5)), st.integers(0, 4))
def test_another_term_is_no_order(order, changed):
    other = [5 if k == changed else k for k in order]
    _, proved, kinds = said(text(chain("add", list(range(5))), 6), text(chain("add", other), 6))
    assert not (proved and set(kinds) == {"reordered-sum"})


def test_differences_have_an_order():
    _, _, kinds = said(text(chain("subtract", [0, 1, 2]), 3), text(chain("subtract", [1, 0, 2]), 3))
    assert "reordered-sum" not in kinds


def test_a_partial_sum_that_is_used_elsewhere_is_a_term():
    def joined(order: str) -> str:
        lines, leaves = leaves_of(3)
        a, b, c = (leaves[int(k)] for k in order)
        lines += [f"p = f32[4] add({a}, {b})", f"s = f32[4] add(p, {c})"]
        lines += ["e = f32[4] exponential(p)", "y = f32[4] multiply(s, e)"]
        return module(lines, "y")

    _, _, kinds = said(joined("012"), joined("120"))
    assert "reordered-sum" not in kinds


def test_a_product_with_one_is_its_factor():
    def joined(order: str) -> str:
        lines, leaves = leaves_of(3)
        lines += ["n = f32[] constant(1)", "ones = f32[4] broadcast(n), dimensions={}"]
        value = leaves[int(order[0])]
        for k in order[1:]:
            lines += [f"m{k} = f32[4] multiply({leaves[int(k)]}, ones)"]
            lines += [f"s{k} = f32[4] add({value}, m{k})"]
            value = f"s{k}"
        return module(lines, value)

    same, proved, kinds = said(joined("012"), joined("201"))
    assert (same, proved, kinds) == (False, True, ["reordered-sum"])


def test_a_long_sum_takes_linear_time():
    number = 4_000
    order = list(range(number))
    turned = order[::-1]

    def long(order: list[int]) -> str:
        lines = ["x = f32[4,4000] parameter(0)"]
        for k in range(number):
            lines.append(f"l{k} = f32[4,1] slice(x), slice={{[0:4], [{k}:{k + 1}]}}")
            lines.append(f"r{k} = f32[4] reshape(l{k})")
        value = f"r{order[0]}"
        for k in order[1:]:
            lines.append(f"s{k} = f32[4] add({value}, r{k})")
            value = f"s{k}"
        return module(lines, value)

    same, proved, kinds = said(long(order), long(turned))
    assert (same, proved, kinds) == (False, True, ["reordered-sum"])


def said_of(cause: Cause) -> str:
    return " ".join(map(str, (cause.title, cause.fix, cause.fix_in_short, cause.proof)))


def test_products_are_told_with_their_factors() -> None:
    inputs = [f"{n} = f32[4] parameter({k})" for k, n in enumerate("abcd")]
    first = [*inputs, "x = f32[4] multiply(a, b)", "y = f32[4] multiply(x, c)"]
    other = [*inputs, "x = f32[4] multiply(c, b)", "y = f32[4] multiply(x, a)"]
    rest = ["v = f32[4] subtract(y, c)", "u = f32[4] power(v, a)", "w = f32[4] divide(u, d)"]
    found = explain_modules(
        read_module(module([*first, *rest], "w")), read_module(module([*other, *rest], "w"))
    )
    assert str(found.verdict.what) == "A product takes its factors in another order."
    (cause,) = found.causes
    assert "factors in one order" in str(cause.fix)
    assert "factors in one order" in str(cause.fix_in_short)
    assert "term" not in said_of(cause)
    assert any("XLA compiles it anew" in str(one.text) for one in cause.evidence)


def test_sums_are_told_with_their_terms() -> None:
    inputs = [f"{n} = f32[4] parameter({k})" for k, n in enumerate("abcd")]
    first = [*inputs, "x = f32[4] add(a, b)", "y = f32[4] add(x, c)"]
    other = [*inputs, "x = f32[4] add(c, b)", "y = f32[4] add(x, a)"]
    rest = ["v = f32[4] subtract(y, c)", "u = f32[4] power(v, a)", "w = f32[4] divide(u, d)"]
    found = explain_modules(
        read_module(module([*first, *rest], "w")), read_module(module([*other, *rest], "w"))
    )
    (cause,) = found.causes
    assert "terms in one order" in str(cause.fix)
    assert "factor" not in said_of(cause)


@pytest.mark.parametrize(("operation", "is_told"), [("multiply", True), ("subtract", False)])
def test_that_the_result_is_the_same_is_said_where_it_is(operation: str, *, is_told: bool) -> None:
    inputs = ["a = f32[4] parameter(0)", "c = f32[4] sine(a)", "d = f32[4] cosine(a)"]
    texts = [
        module([*inputs, f"e = f32[4] {operation}({order})"], "e") for order in ("c, d", "d, c")
    ]
    (cause,) = explain_modules(*map(read_module, texts)).causes
    assert str(cause.kind) == "reordered-operands"
    assert is_told == any("the result is the same" in str(one.text) for one in cause.evidence)


def test_equal_sums_that_both_sides_have_in_both_orders_are_not_counted() -> None:
    inputs = [f"{n} = f32[4] parameter({k})" for k, n in enumerate("abcd")]
    both = ["s = f32[4] add(a, b)", "t = f32[4] add(b, a)", "u = f32[4] subtract(s, t)"]

    def text(product: str) -> str:
        rest = ["w = f32[4] power(u, p)", "v = f32[4] subtract(w, c)", "r = f32[4] divide(v, a)"]
        return module([*inputs, *both, f"p = f32[4] {product}", *rest], "r")

    found = explain_modules(
        read_module(text("multiply(c, d)")), read_module(text("multiply(d, c)"))
    )
    (cause,) = found.causes
    assert str(cause.kind) == "reordered-operands"
