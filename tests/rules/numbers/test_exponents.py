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


def differentiated(exponent: float, below: float, *, ran: str = "", factor: float = 2.0) -> str:
    """``x ** e`` at line 8 and its derivative, whose instructions have no frame or a line.

    The derivative's exponent is rounded as C++ rounds it, and the forward one as XLA does.
    """
    back = f'metadata={{op_type="aten__pow" op_name="aten__pow.5/aten__pow"{ran}}}'
    return f"""HloModule differentiated

ENTRY main {{
  x = f32[4] parameter(0)
  g = f32[4] parameter(1)
  k = f32[4] clamp(x, x, x), metadata={{op_type="aten__clamp" source_file="t.py" source_line=7}}
  c = f32[] constant({exponent}), {LINE}
  e = f32[4] broadcast(c), dimensions={{}}, {LINE}
  p = f32[4] power(k, e), {LINE}
  c1 = f32[] constant({below}), {back}
  e1 = f32[4] broadcast(c1), dimensions={{}}, {back}
  q = f32[4] power(k, e1), {back}
  c2 = f32[] constant({factor}), {back}
  e2 = f32[4] broadcast(c2), dimensions={{}}, {back}
  d = f32[4] multiply(q, e2), {back}
  z = f32[4] multiply(d, g), {back}
  ROOT r = (f32[4], f32[4]) tuple(p, z)
}}
"""


def told(a: str, b: str) -> list[str]:
    context = Context(program={"t.py": {8: "    y = x ** self.gamma"}})
    found = explain_modules(read_module(a, "a"), read_module(b, "b"), context, context)
    assert found.proved
    return [str(cause.title) for cause in found.causes]


def test_an_exponent_takes_its_rounded_derivative() -> None:
    """One number of the program: 1.9406 and 0.9406 differ by one but for rounding."""
    a = differentiated(1.94062495, 0.940625, factor=1.940625)
    b = differentiated(1.88125, 0.88125, factor=1.88125)
    (only,) = told(a, b)
    assert "1.94062495 became 1.88125 at 3 places at t.py:8" in only


def test_an_exponent_takes_no_number_that_does_not_follow() -> None:
    """A power of its own is another number."""
    assert len(told(differentiated(2.5, 1.25), differentiated(3.5, 1.75))) == 2


def test_a_derivative_that_the_program_writes_itself_is_mended_there() -> None:
    """What stands at another line of the program's own takes another edit."""
    ran = ' source_file="t.py" source_line=12'
    titles = told(differentiated(2.5, 1.5, ran=ran), differentiated(3.5, 2.5, ran=ran))
    assert len(titles) == 2
    assert "t.py:12" in " ".join(titles)
