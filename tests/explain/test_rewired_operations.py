"""Operations that are the same on both sides and take other values."""

from __future__ import annotations

import gzip
from pathlib import Path

from xlagraph.explain import explain_modules
from xlagraph.hlo import read_module

PAIRS = Path(__file__).resolve().parents[2] / "fixtures" / "module_pairs"
REWIRED = "connected in another order"


def texts() -> tuple[str, str]:
    """A step of blocks that are normed after their sum, and of those normed before the layers."""
    first, second = (PAIRS / f"norm_before_layers.{side}.hlo.gz" for side in "ab")
    return gzip.decompress(first.read_bytes()).decode(), gzip.decompress(
        second.read_bytes()
    ).decode()


def titles(first: str, second: str) -> list[str]:
    causes = explain_modules(read_module(first), read_module(second)).causes
    return [str(cause.title) for cause in causes]


def test_what_the_operations_take_is_told_on_both_sides() -> None:
    first, second = texts()
    explanation = explain_modules(read_module(first), read_module(second))
    assert explanation.proved
    told = str(explanation.causes[0].title)
    assert REWIRED in told
    assert " in B and the result of " in told


def test_another_operation_beside_them_is_not_passed_over() -> None:
    first, second = texts()
    other = second.replace(" tanh(", " cosine(", 1)
    assert other != second
    assert not any(REWIRED in title for title in titles(first, other))


def test_a_few_operations_that_make_up_the_module_are_no_other_order() -> None:
    text = """HloModule step

ENTRY main {{
  x = f32[4,4] parameter(0)
  a = f32[4,4] tanh(x)
  b = f32[4,4] add(a, {0})
  c = f32[4,4] cosine(b)
  d = f32[4,4] add({1}, a)
  ROOT t = (f32[4,4]) tuple(d)
}}
"""
    assert not any(
        REWIRED in title for title in titles(text.format("x", "c"), text.format("a", "b"))
    )
