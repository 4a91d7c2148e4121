"""A roll: what stands twice in a row, and is read from a place on."""

from __future__ import annotations

import pytest

from xlagraph.facts.values.notation import Term, told_as, written
from xlagraph.facts.values.ranges import roll_of
from xlagraph.hlo import read_module

ROLL = """HloModule m

ENTRY main {
  x = f32[2,6] parameter(0)
  twice = f32[2,12] concatenate(x, x), dimensions={1}
  zero = s32[] constant(0)
  start = s32[] constant(START)
  ROOT r = f32[2,6] dynamic-slice(twice, zero, start), dynamic_slice_sizes={2,6}
}
"""


def term(module, i):
    if module.opcodes[i] in ("parameter", "constant"):
        return Term("x" if module.opcodes[i] == "parameter" else module.payloads[i], 0)
    return written(module, i, [term(module, o) for o in module.operands[i]])


def read(text, start=1):
    module = read_module(text.replace("START", str(start)), "m")
    return module, module.names.index("r")


@pytest.mark.parametrize(("start", "shift"), [(1, -1), (5, 1), (3, 3), (4, 2), (0, 0)])
def test_a_roll_is_told_by_its_shift(start, shift):
    module, root = read(ROLL, start)
    assert roll_of(module, root) == 1
    assert told_as(module, root) == "roll"
    assert term(module, root).text == f"roll(x, {shift})"


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("concatenate(x, x)", "concatenate(x, y)"),
        ("twice, zero, start", "twice, start, zero"),
        ("twice, zero, start", "twice, start, start"),
        ("f32[2,6] dynamic-slice", "f32[2,4] dynamic-slice"),
    ],
    ids=["two values", "another axis", "both axes", "a part"],
)
def test_what_is_read_elsewhere_is_no_roll(old, new):
    text = ROLL.replace("  twice", "  y = f32[2,6] parameter(1)\n  twice").replace(old, new)
    module, root = read(text)
    assert roll_of(module, root) is None
    assert told_as(module, root) == "dynamic-slice"
