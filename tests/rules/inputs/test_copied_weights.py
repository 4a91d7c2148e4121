"""New weights that a step gives back twice are copied, as into a target network."""

from __future__ import annotations

import pytest

from xlagraph.explain import explain_modules
from xlagraph.hlo import read_module

STEP = """HloModule step

ENTRY main {{
  w = f32[4] parameter(0)
  v = f32[6] parameter(1)
  x = f32[4] parameter(2)
  g = f32[4] tanh(x)
  n = f32[4] subtract(w, g)
  u = f32[6] parameter(3)
  k = f32[6] cosine(u)
  m = f32[6] subtract(v, k)
  ROOT r = ({shapes}) tuple({outputs})
}}
"""


def step(*outputs: str) -> str:
    shapes = ", ".join("f32[6]" if one == "m" else "f32[4]" for one in outputs)
    return STEP.format(shapes=shapes, outputs=", ".join(outputs))


@pytest.mark.parametrize(
    ("more", "is_copy"),
    [
        (("n", "m"), True),
        (("g", "g"), False),
        (("n", "m", "g"), False),
        (("n",), False),
    ],
    ids=["both weights", "no weights", "another value too", "one tensor"],
)
def test_outputs_that_are_new_weights_once_more_are_copies(more: tuple[str, ...], *, is_copy: bool):
    a, b = step("n", "m"), step("n", "m", *more)
    (cause,) = explain_modules(read_module(a, "a"), read_module(b, "b")).causes
    assert (cause.kind.id, cause.proved) == ("live-tensor", True)
    assert ("target network" in str(cause.in_short)) is is_copy
    assert ("behind torch_xla.sync()" in str(cause.fix_in_short)) is is_copy
