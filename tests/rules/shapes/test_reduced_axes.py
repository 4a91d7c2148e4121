"""A softmax or a sum over another axis is one cause, by its name."""

from __future__ import annotations

import pytest

from xlagraph.explain import explain_modules
from xlagraph.hlo import read_module
from xlagraph.rules.shapes import reduced_axes

CALLED = """HloModule step

total {
  x = f32[] parameter(0)
  y = f32[] parameter(1)
  ROOT r = f32[] add(x, y)
}

largest {
  x = f32[] parameter(0)
  y = f32[] parameter(1)
  ROOT r = f32[] maximum(x, y)
}

"""
POWERS = """  most = f32[4,6] reduce(x, low), dimensions={AXIS}, to_apply=largest
  most_of = f32[4,6,6] broadcast(most), dimensions={KEPT}
  shifted = f32[4,6,6] subtract(x, most_of)
  powers = f32[4,6,6] exponential(shifted)
  sum = f32[4,6] reduce(powers, zero), dimensions={AXIS}, to_apply=total
"""
ENDS = {
    "softmax": """  sum_of = f32[4,6,6] broadcast(sum), dimensions={KEPT}
  out = f32[4,6,6] divide(powers, sum_of)
""",
    "log_softmax": """  logs = f32[4,6] log(sum)
  logs_of = f32[4,6,6] broadcast(logs), dimensions={KEPT}
  out = f32[4,6,6] subtract(shifted, logs_of)
""",
}
SUM = """  sines = f32[4,6,6] sine(x)
  other = f32[4,6] reduce(sines, zero), dimensions={AXIS}, to_apply=total
"""


def module(text, axis):
    body = text.replace("AXIS", str(axis)).replace("KEPT", "0,1" if axis == 2 else "0,2")
    constants = "  zero = f32[] constant(0)\n  low = f32[] constant(-inf)\n"
    outputs = [name for name in ("out", "other") if f"  {name} = " in body]
    shapes = ", ".join("f32[4,6,6]" if name == "out" else "f32[4,6]" for name in outputs)
    root = f"  ROOT r = ({shapes}) tuple({', '.join(outputs)})\n"
    entry = f"ENTRY e {{\n  x = f32[4,6,6] parameter(0)\n{constants}{body}{root}}}\n"
    return read_module(CALLED + entry, "m")


def explained(text):
    return explain_modules(module(text, 2), module(text, 1))


@pytest.mark.parametrize("name", ENDS)
def test_all_of_a_softmax_is_one_cause_by_its_name(name):
    found = explained(POWERS + ENDS[name])
    (cause,) = found.causes
    assert found.proved
    words = str(cause.in_short).lower()
    assert words == f"{name} of f32[4,6,6] runs over axis 2 in a and over axis 1 in b"


def test_a_sum_of_something_else_is_no_softmax():
    found = explained(SUM)
    (cause,) = found.causes
    assert found.proved
    assert str(cause.in_short).lower().startswith("sum of f32[4,6,6] runs over axis 2 in a")


def test_a_sum_beside_a_softmax_is_counted():
    found = explained(POWERS + ENDS["softmax"] + SUM)
    (cause,) = found.causes
    assert found.proved
    assert str(cause.in_short).endswith("and so does another reduction")


def test_exponentials_divided_by_another_sum_are_no_softmax():
    other = ENDS["softmax"].replace("divide(powers", "divide(x")
    found = explained(POWERS + other)
    assert found.proved
    assert "softmax" not in str(found.causes[0].in_short).lower()


def test_another_axis_that_makes_another_size_is_left_to_sizes():
    piece = """  wide = f32[4,6,7] broadcast(x), dimensions={0,1}
"""
    texts = [
        CALLED + "ENTRY e {\n  x = f32[4,6] parameter(0)\n  zero = f32[] constant(0)\n"
        f"{piece}  sum = f32[4,{n}] reduce(wide, zero), "
        f"dimensions={{{axis}}}, to_apply=total\n  sines = f32[4,{n}] sine(sum)\n"
        "  ROOT r = f32[] reduce(sines, zero), dimensions={0,1}, to_apply=total\n}\n"
        for n, axis in ((6, 2), (7, 1))
    ]
    found = explain_modules(*(read_module(text, "m") for text in texts))
    assert found.proved
    assert len(found.causes) == 1


def test_axes_that_a_value_does_not_have_are_left_to_other_rules():
    """As where another rule has undone a size but not yet what runs over it."""
    text = CALLED + (
        "ENTRY e {\n  x = f32[3,8] parameter(0)\n  zero = f32[] constant(0)\n"
        "  ROOT s = f32[3] reduce(x, zero), dimensions={AXES}, to_apply=total\n}\n"
    )
    a, b = (read_module(text.replace("AXES", axes), "m") for axes in ("2,3", "1"))
    (x,), (y,) = ([i for i, o in enumerate(m.opcodes) if o == "reduce"] for m in (a, b))
    assert reduced_axes._turn(a, x, b, y) is None
