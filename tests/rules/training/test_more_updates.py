"""A step that does all that another does, and trains further tensors: a delayed policy update."""

from __future__ import annotations

from xlagraph.cause.model import Explanation
from xlagraph.explain import explain_modules
from xlagraph.hlo import read_module


def line(number: int) -> str:
    return f'metadata={{op_type="aten__mul" source_file="train.py" source_line={number}}}'


ADAM = 'metadata={op_type="aten__add" source_file="torch/optim/adam.py" source_line=447}'
FORWARD = f"""
  q = f32[8,8] dot(s, c), lhs_contracting_dims={{1}}, rhs_contracting_dims={{0}}, {line(20)}
  e = f32[8,8] subtract(q, r), {line(21)}"""
CRITIC = f"""
  g = f32[8,8] dot(s, e), lhs_contracting_dims={{0}}, rhs_contracting_dims={{0}}
  rates = f32[8,8] broadcast(rate), dimensions={{}}
  d = f32[8,8] multiply(rates, g), {ADAM}
  nc = f32[8,8] subtract(c, d), {ADAM}"""
ACTOR = f"""
  w = f32[8,8] parameter(4)
  t = f32[8,8] parameter(5)
  h = f32[8,8] dot(s, w), lhs_contracting_dims={{1}}, rhs_contracting_dims={{0}}, {line(30)}
  p = f32[8,8] tanh(h), {line(31)}
  k = f32[8,8] cosine(p)
  j = f32[8,8] dot(k, nc), lhs_contracting_dims={{1}}, rhs_contracting_dims={{1}}
  gw = f32[8,8] dot(s, j), lhs_contracting_dims={{0}}, rhs_contracting_dims={{0}}
  gp = f32[8,8] dot(p, k), lhs_contracting_dims={{0}}, rhs_contracting_dims={{0}}
  g2 = f32[8,8] add(g, gp), {ADAM}
  dw = f32[8,8] multiply(rates, gw), {ADAM}
  nw = f32[8,8] subtract(w, dw), {ADAM}
  half = f32[8,8] multiply(nc, rates), {line(40)}
  nt = f32[8,8] add(half, t), {line(40)}"""


def step(body: str, *given: str) -> str:
    shapes = ", ".join("f32[8,8]" for _ in given)
    return f"""HloModule step

ENTRY main {{
  s = f32[8,8] parameter(0)
  c = f32[8,8] parameter(1)
  r = f32[8,8] parameter(2)
  rate = f32[] parameter(3){body}
  ROOT tuple = ({shapes}) tuple({", ".join(given)})
}}
"""


WHOLE = step(FORWARD + CRITIC + ACTOR, "e", "nc", "g2", "nw", "nt")


def explained(a: str, b: str) -> Explanation:
    explanation = explain_modules(read_module(a, "a"), read_module(b, "b"))
    assert len(explanation.causes) == 1
    return explanation


def test_work_of_every_second_step():
    critic = step(FORWARD + CRITIC, "e", "nc", "g")
    for a, b, more in ((critic, WHOLE, "B"), (WHOLE, critic, "A")):
        explanation = explained(a, b)
        cause = explanation.causes[0]
        assert explanation.proved
        assert cause.kind.id == "newly-updated"
        assert f"{more} does all that" in str(cause.title)
        assert "updates 2 tensors more" in str(cause.title)
        assert "some steps only" in str(explanation.verdict.what)
        assert str(explanation.verdict.where) == "train.py:31"


def test_a_forward_pass_alone_is_a_step_that_was_cut():
    explanation = explained(step(FORWARD, "q", "e"), WHOLE)
    assert explanation.causes[0].kind.id == "early-execution"
