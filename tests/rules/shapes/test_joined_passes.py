"""Passes over parts, or one over the joined parts: one cause, with all that follows from it."""

from __future__ import annotations

import pytest

from xlagraph.explain import explain_modules
from xlagraph.hlo import read_module

ENTRY = """HloModule m

ENTRY e {{
  x = f32[6,5] parameter(0)
  y = f32[6,5] parameter(1)
  w = f32[5,8] parameter(2)
  v = f32[5,8] parameter(3)
{0}
}}
"""
DOT = "lhs_contracting_dims={1}, rhs_contracting_dims={0}"


def one_pass(name: str, source: str, rows: int, weight: str = "w") -> str:
    return (
        f"  {name}_h = f32[{rows},8] dot({source}, {weight}), {DOT}\n"
        f"  {name} = f32[{rows},8] tanh({name}_h)\n"
    )


def end(*values: str, extra: str = "") -> str:
    """What is given back of two results: their sum and their difference, and maybe more."""
    first, second = values
    total = f"  more = f32[6,8] {extra}({first})\n" if extra else ""
    return (
        f"{total}  s = f32[6,8] add({'more' if extra else first}, {second})\n"
        f"  d = f32[6,8] subtract({first}, {second})\n"
        f"  z = f32[5,8] multiply(w, v)\n"
        f"  ROOT t = (f32[6,8], f32[6,8], f32[5,8]) tuple(s, d, z)"
    )


def apart(weight: str = "w", extra: str = "") -> str:
    passes = one_pass("p", "x", 6) + one_pass("q", "y", 6, weight)
    return ENTRY.format(passes + end("p", "q", extra=extra))


def joined(*, beside: bool = False) -> str:
    parts = (
        "  c = f32[12,5] concatenate(x, y), dimensions={0}\n"
        + one_pass("all", "c", 12)
        + "  p1 = f32[6,8] slice(all), slice={[0:6], [0:8]}\n"
        "  q1 = f32[6,8] slice(all), slice={[6:12], [0:8]}\n"
    )
    if not beside:
        return ENTRY.format(parts + end("p1", "q1"))
    passes = one_pass("p", "x", 6) + one_pass("q", "y", 6)
    sums = "  p2 = f32[6,8] add(p, p1)\n  q2 = f32[6,8] add(q, q1)\n"
    return ENTRY.format(parts + passes + sums + end("p2", "q2"))


def explained(a: str, b: str):
    return explain_modules(read_module(a, "a"), read_module(b, "b"))


@pytest.mark.parametrize("turned", [False, True])
def test_all_that_differs_follows_from_the_join(turned):
    pair = [apart(), joined()]
    explanation = explained(*(reversed(pair) if turned else pair))
    (cause,) = explanation.causes
    assert explanation.proved
    assert cause.kind.id == "joined-passes"
    one, other = "BA" if turned else "AB"
    title = (
        f"2 passes over 6 rows in {one} are one pass over 12 in {other}, which joins their inputs"
    )
    assert str(cause.title) == title
    assert str(cause.short) == "2 passes over 6 rows are one over 12"


def test_what_neither_pass_computes_is_told_beside_it():
    explanation = explained(apart(extra="exponential"), joined())
    assert len(explanation.causes) > 1 or not explanation.proved
    kinds = [cause.kind.id for cause in explanation.causes]
    assert kinds != ["joined-passes"]


@pytest.mark.parametrize(
    ("a", "b"),
    [
        (apart(weight="v"), joined()),  # the parts go through other weights
        (apart(), joined(beside=True)),  # both passes are there as well
    ],
)
def test_look_alikes_are_no_joined_passes(a, b):
    kinds = [cause.kind.id for cause in explained(a, b).causes]
    assert "joined-passes" not in kinds
