"""The device's index that goes into a key, or into a value, on one side only."""

from __future__ import annotations

import pytest

from xlagraph.explain import explain_modules
from xlagraph.hlo import read_module

INDEX = """  id = u32[] partition-id()
  two = u32[] constant(2)
  index = u32[] remainder(id, two)
  spread = u32[2] broadcast(index), dimensions={}
"""
FOLDED = """  mixed = u32[2] xor(key, spread)
  used = u32[2] add(mixed, spread)
"""


def module(piece, used):
    return read_module(
        "HloModule jit_step\n\nENTRY e {\n  key = u32[2] parameter(0)\n"
        "  bits = u32[2] parameter(1)\n"
        f"{piece}  drawn = u32[2] multiply({used}, bits)\n"
        "  more = u32[2] and(drawn, key)\n  ROOT r = (u32[2]) tuple(more)\n}\n",
        "m",
    )


def said(piece, used="used", other="", others="key"):
    found = explain_modules(module(piece, used), module(other, others))
    assert found.proved
    return str(found.causes[0].in_short).lower()


@pytest.mark.parametrize(
    ("piece", "words"),
    [
        (INDEX + FOLDED, "goes into the key of random numbers in a only"),
        (INDEX + "  used = u32[2] add(key, spread)\n", "goes into a value in a only"),
    ],
)
def test_the_device_s_index_is_told(piece, words):
    assert f"the device's index (jax.lax.axis_index) {words}" in said(piece)


FOLD_IN = """  step = u32[2] constant({{7, 9}})
  salted = u32[2] xor({0}, step)
  last = u32[2] add(salted, step)
"""


def test_a_key_that_a_number_goes_into_as_well_is_told_too():
    words = said(INDEX + FOLDED + FOLD_IN.format("used"), "last", FOLD_IN.format("key"), "last")
    assert "the device's index (jax.lax.axis_index) goes into the key" in words


@pytest.mark.parametrize(
    "piece",
    [
        INDEX + FOLDED.replace("add(mixed, spread)", "add(mixed, bits)"),
        INDEX.replace("partition-id()", "constant(1)") + FOLDED,
    ],
)
def test_what_takes_in_more_or_no_index_is_not_it(piece):
    assert "device's index" not in said(piece)
