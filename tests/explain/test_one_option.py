"""One option of a layer stands in several instructions: it is one cause."""

from __future__ import annotations

import pytest

from xlagraph.explain import explain_modules
from xlagraph.hlo import read_module

LINE = 'metadata={{op_name="norm" source_file="train.py" source_line={}}}'


def norms(first: float, second: float, forward: int = 4, constant: int | None = None) -> str:
    """A batch norm with an option, and a constant beside that has the value as well."""
    line = LINE.format(forward)
    beside = ", " + LINE.format(constant) if constant else ""
    kinds = "(f32[8,4], f32[4], f32[4])"
    return f"""HloModule step

ENTRY main {{
  x = f32[8,4] parameter(0)
  w = f32[4] parameter(1)
  n = {kinds} batch-norm-training(x, w, w), epsilon={first}, feature_index=1, {line}
  v = f32[4] get-tuple-element(n), index=2, {line}
  e = f32[] constant({second}){beside}
  s = f32[4] broadcast(e), dimensions={{}}
  a = f32[4] add(v, s)
  y = f32[8,4] get-tuple-element(n), index=0, {line}
  t = f32[8,4] tanh(y)
  ROOT r = (f32[8,4], f32[4]) tuple(t, a)
}}
"""


@pytest.mark.parametrize(
    ("first", "second", "line", "number"),
    [
        ((1e-05, 0.001), (1e-05, 0.001), None, 1),
        ((1e-05, 0.001), (1e-05, 0.001), 4, 1),
        ((1e-05, 0.001), (1e-05, 0.001), 9, 2),
        ((1e-05, 0.001), (0.5, 0.25), None, 2),
    ],
    ids=["no line", "the same line", "another line", "other numbers"],
)
def test_an_option_and_constants_of_one_change_are_one(first, second, line, number):
    a, b = (
        read_module(norms(one, two, constant=line), "m")
        for one, two in zip(first, second, strict=True)
    )
    found = explain_modules(a, b)
    assert found.proved
    assert len(found.causes) == number
    told = [str(cause.in_short) for cause in found.causes]
    assert "the eps of a normalisation: 1e-05 became 0.001" in told
