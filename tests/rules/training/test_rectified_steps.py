"""Steps that one side divides by the root of mean squares that both keep, as RAdam does."""

from __future__ import annotations

import pytest

from xlagraph.explain import explain_modules
from xlagraph.hlo import read_module

HEAD = """\
HloModule IrToHlo.{number}
ENTRY main {{
  x = f32[16,4] parameter(0)
  w = f32[4,5] parameter(1)
  m = f32[4,5] parameter(2)
  v = f32[4,5] parameter(3)
  rate = f32[] parameter(4)
  share = f32[] parameter(5)
  rates = f32[4,5] broadcast(rate), dimensions={{}}
  shares = f32[4,5] broadcast(share), dimensions={{}}
  h = f32[16,5] dot(x, w), lhs_contracting_dims={{1}}, rhs_contracting_dims={{0}}
  e = f32[16,5] sine(h)
  g = f32[4,5] dot(x, e), lhs_contracting_dims={{0}}, rhs_contracting_dims={{0}}
  mm = f32[4,5] multiply(m, shares)
  nm = f32[4,5] add(mm, g)
  vv = f32[4,5] multiply(v, shares)
  gg = f32[4,5] multiply(g, {squared})
  nv = f32[4,5] add(vv, gg)
"""
PLAIN = "  s = f32[4,5] multiply(nm, rates)\n"
RECTIFIED = """\
  r = f32[4,5] sqrt(nv)
  d = f32[4,5] divide(nm, r)
  s = f32[4,5] multiply(d, rates)
"""
END = """\
  nw = f32[4,5] subtract(w, s)
  ROOT o = (f32[4,5], f32[4,5], f32[4,5]) tuple(nw, nm, nv)
}}
"""


def told(first: str, then: str, squared: str = "g") -> str:
    texts = [
        (HEAD + step + END).format(number=k, squared=squared)
        for k, step in enumerate((first, then))
    ]
    found = explain_modules(*map(read_module, texts))
    assert found.proved
    return str(found.verdict)


@pytest.mark.parametrize("turned", [False, True])
def test_a_root_of_mean_squares_is_told(turned: bool) -> None:
    sides = (RECTIFIED, PLAIN) if turned else (PLAIN, RECTIFIED)
    side = "AB"[not turned]
    assert f"by the root of mean squares in {side} only, as by RAdam" in told(*sides)


def test_another_term_is_another_option() -> None:
    assert "RAdam" not in told(PLAIN, RECTIFIED.replace("sqrt(nv)", "tanh(nv)"))
    assert "RAdam" not in told(PLAIN, RECTIFIED, squared="w")  # no mean of squares


LINES = (
    'metadata={{{{op_name="aten::mul" source_file="/lib/torch/optim/{file}" source_line={line}}}}}'
)


@pytest.mark.parametrize(("file", "causes"), [("radam.py", 1), ("elsewhere.py", 2)])
def test_a_number_that_the_same_steps_take_is_part_of_them(file: str, causes: int) -> None:
    at_root = ", " + LINES.format(file="radam.py", line=337)
    at_rate = ", " + LINES.format(file=file, line=357)
    spread = "  turns = f32[4,5] broadcast(turn), dimensions={{}}" + at_rate + "\n"
    turned = f"  t = f32[4,5] multiply(s, turns){at_rate}\n"
    first = f"  turn = f32[] constant(-1){at_rate}\n{spread}" + PLAIN + turned
    then = (
        f"  turn = f32[] parameter(6)\n{spread}"
        + RECTIFIED.replace("(nv)", f"(nv){at_root}").replace("(nm, r)", f"(nm, r){at_root}")
        + turned
    )
    end = END.replace("subtract(w, s)", "add(w, t)")
    texts = [
        (HEAD + step + end).format(number=k, squared="g") for k, step in enumerate((first, then))
    ]
    found = explain_modules(*map(read_module, texts))
    assert found.proved
    assert "RAdam begins to rectify" in str(found.verdict)
    assert len(found.causes) == causes


@pytest.mark.parametrize(("number", "causes"), [("-1", 1), ("1", 2)])
def test_without_lines_the_steps_that_are_subtracted_are_part_of_them(number: str, causes: int):
    """A learning rate of 1 that becomes another one is a change of its own."""
    turned = "  t = f32[4,5] multiply(s, turns)\n"
    spread = "  turns = f32[4,5] broadcast(turn), dimensions={{}}\n"
    first = f"  turn = f32[] constant({number})\n{spread}" + PLAIN + turned
    then = f"  turn = f32[] parameter(6)\n{spread}" + RECTIFIED + turned
    end = END.replace("subtract(w, s)", "add(w, t)")
    texts = [
        (HEAD + step + end).format(number=k, squared="g") for k, step in enumerate((first, then))
    ]
    found = explain_modules(*map(read_module, texts))
    assert found.proved
    assert "as by RAdam" in str(found.verdict)
    assert len(found.causes) == causes
