"""Another formula of one function: what it takes in another order is no cause beside it."""

from __future__ import annotations

from xlagraph.explain import explain_modules
from xlagraph.hlo import read_module

STEP = """HloModule step

ENTRY main {{
  x = f32[8,8] parameter(0)
  w = f32[8,8] parameter(1)
  h = f32[8,8] dot(x, w), lhs_contracting_dims={{1}}, rhs_contracting_dims={{0}}
  half = f32[8,8] cosine(w)
  scaled = f32[8,8] multiply({order}), {line}
  {piece}, {seven}
  {more}
  y = f32[8,8] multiply(scaled, p), {seven}
  ROOT r = f32[8,8] tanh(y)
}}
"""
ERF = "e = f32[8,8] erf(h)", "p = f32[8,8] exponential(e)"
TANH = "t = f32[8,8] tanh(h)", "p = f32[8,8] negate(t)"


def at(line: int) -> str:
    return f'metadata={{op_type="aten__gelu" source_file="m.py" source_line={line}}}'


def kinds(line: int) -> list[str]:
    lines = {"line": at(line), "seven": at(7)}
    a = STEP.format(order="h, half", piece=ERF[0], more=ERF[1], **lines)
    b = STEP.format(order="half, h", piece=TANH[0], more=TANH[1], **lines)
    explanation = explain_modules(read_module(a, "a"), read_module(b, "b"))
    assert explanation.proved
    assert "x * y * exp(erf(x)) became y * x * -tanh(x)" in str(
        explanation.verdict.what
    )  # and not the order
    return [cause.kind.id for cause in explanation.causes]


def test_an_order_at_the_line_of_a_piece_belongs_to_it():
    assert kinds(7) == ["replaced-subgraph"]


def test_an_order_at_another_line_is_a_cause_of_its_own():
    assert kinds(9) == ["replaced-subgraph", "reordered-operands"]
