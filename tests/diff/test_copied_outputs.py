"""Outputs that a module gives back twice, as a copied tensor makes them."""

from __future__ import annotations

import pytest

from xlagraph.diff import diff_modules
from xlagraph.hlo import read_module

TEXT = """HloModule step

ENTRY e {{
  w = f32[4] parameter(0)
  v = f32[4] parameter(1)
  g = f32[4] multiply(w, v)
  a = f32[4] add(w, g)
  b = f32[4] subtract(v, g)
  ROOT t = ({shapes}) tuple({outputs})
}}
"""


def module(outputs: str):
    """A step that gives back these values, in this order."""
    shapes = ", ".join("f32[4]" for _ in outputs.split())
    return read_module(TEXT.format(shapes=shapes, outputs=", ".join(outputs.split())), "test")


def pairs(a: str, b: str) -> list[tuple[int | None, int | None]]:
    """Positions of A with those of B."""
    return [(slot.a, slot.b) for slot in diff_modules(module(a), module(b)).outputs]


@pytest.mark.parametrize(
    ("outputs", "own"),
    [("a b g a b", (0, 1)), ("g a b a b", (3, 4)), ("a g a b", (0,))],
    ids=["older copies", "later copies", "of one alone"],
)
def test_what_stands_beside_them_tells_copies_from_what_was_there(outputs, own):
    kept = [k for k in range(len(outputs.split())) if k not in own]
    there = [*zip(range(3), kept, strict=True), *((None, k) for k in own)]
    assert pairs("g a b", outputs) == there
    back = {(y, x) for x, y in pairs(outputs, "g a b")}
    assert back == set(there)


def test_outputs_in_another_order_are_in_another_order():
    assert pairs("g a b", "b g a") == [(0, 1), (1, 2), (2, 0)]


def test_copies_on_both_sides_are_paired_in_order():
    assert pairs("a a g", "g a a") == [(0, 1), (1, 2), (2, 0)]
