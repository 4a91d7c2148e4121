"""An exponent that Python computes is told as one, with its derivative beside it."""

from __future__ import annotations

import pytest

from xlagraph.cause.model import Context
from xlagraph.explain import explain_modules
from xlagraph.hlo import read_module

LINE = 'metadata={op_type="aten__pow" source_file="t.py" source_line=8}'
GENERAL = "Send it in one element"


def powered(number: float, use: str) -> str:
    return f"""HloModule powered

ENTRY main {{
  x = f32[4] parameter(0)
  g = f32[4] parameter(1)
  c = f32[] constant({number}), {LINE}
  e = f32[4] broadcast(c), dimensions={{}}, {LINE}
  p = f32[4] power(x, e), {LINE}
  d = f32[4] {use}, {LINE}
  ROOT r = (f32[4], f32[4]) tuple(p, d)
}}
"""


@pytest.mark.parametrize(
    ("use", "is_typed"),
    [
        ("negate(p)", True),
        ("multiply(g, e)", True),  # the derivative's factor
        ("add(g, e)", False),  # it is more than an exponent
        ("power(e, x)", False),
    ],
)
def test_an_exponent_is_typed(use: str, is_typed: bool) -> None:
    context = Context(program={"t.py": {8: "    y = x ** self.gamma"}})
    a, b = (read_module(powered(one, use), "m") for one in (2.5, 3.5))
    fix = str(explain_modules(a, b, context, context).verdict.fix)
    typed = 'y = x ** torch.tensor([self.gamma]).to("xla")[0]'
    assert fix.endswith(typed) == is_typed
    assert fix.startswith(GENERAL) != is_typed
