"""A target network, or an average of weights, that one side alone blends weights into."""

from __future__ import annotations

import pytest

from xlagraph.explain import explain_modules
from xlagraph.hlo import read_module

HEAD = """HloModule step

ENTRY main {
  x = f32[4,8] parameter(0)
  w = f32[8,4] parameter(1)
  t = f32[8,4] parameter(2)
  rate = f32[] parameter(3)
  tau = f32[] parameter(4)
  y = f32[4,4] dot(x, w), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  z = f32[4,4] dot(x, t), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  d = f32[4,4] subtract(y, z)
  g = f32[8,4] dot(x, d), lhs_contracting_dims={0}, rhs_contracting_dims={0}
  rates = f32[8,4] broadcast(rate), dimensions={}
  lg = f32[8,4] multiply(rates, g)
  new = f32[8,4] subtract(w, lg)
  taus = f32[8,4] broadcast(tau), dimensions={}
"""
PLAIN = HEAD + "  ROOT o = (f32[8,4], f32[]) tuple(new, tau)\n}\n"
MEAN = """  a = f32[8,4] multiply(t, taus)
  b = f32[8,4] multiply(new, taus)
  c = f32[8,4] add(a, b)
"""
LERP = """  a = f32[8,4] subtract(new, t)
  b = f32[8,4] multiply(taus, a)
  c = f32[8,4] add(t, b)
"""
END = "  ROOT o = (f32[8,4], f32[], f32[8,4]) tuple(new, tau, c)\n}\n"


def told(body: str, *, is_turned: bool = False) -> tuple[str, str]:
    sides = [PLAIN, HEAD + body + END]
    explanation = explain_modules(
        *(read_module(one, "m") for one in (sides[::-1] if is_turned else sides))
    )
    assert explanation.proved
    (cause,) = explanation.causes
    return cause.kind.id, str(cause.in_short)


@pytest.mark.parametrize("is_turned", [False, True])
@pytest.mark.parametrize("body", [MEAN, LERP, MEAN.replace("add(a, b)", "add(b, a)")])
def test_a_blend_is_told_as_one(body: str, is_turned: bool) -> None:
    short = "A target network or average moves in some steps only"
    assert told(body, is_turned=is_turned) == ("newly-updated", short)


@pytest.mark.parametrize(
    "body",
    [
        LERP.replace("subtract(new, t)", "subtract(lg, t)"),  # no weight that both give out
        MEAN.replace("multiply(t, taus)", "copy(t)").replace("multiply(new, taus)", "copy(lg)"),
        MEAN.replace("multiply(t, taus)", "tanh(t)"),
        MEAN.replace("multiply(new, taus)", "multiply(new, t)"),
        MEAN.replace("a = f32[8,4] multiply(t, taus)", "a = f32[8,4] copy(t)"),  # it moves t by new
    ],
)
def test_a_difference_that_is_kept_is_no_blend(body: str) -> None:
    assert told(body)[0] == "live-tensor"


BEGUN = """HloModule step

ENTRY main {{
  x = f32[4,8] parameter(0)
  w = f32[8,4] parameter(1)
  rate = f32[] parameter(2)
{inputs}  y = f32[4,4] {forward}(x, w), lhs_contracting_dims={{1}}, rhs_contracting_dims={{0}}
  g = f32[8,4] dot(x, y), lhs_contracting_dims={{0}}, rhs_contracting_dims={{0}}
  rates = f32[8,4] broadcast(rate), dimensions={{}}
  lg = f32[8,4] multiply(rates, g)
{step}  ROOT o = (f32[8,4]{shapes}) tuple(new{values})
}}
"""
STEP = "  new = f32[8,4] subtract(w, lg)\n"
AVERAGED = {
    "inputs": "  t = f32[8,4] parameter(3)\n  tau = f32[] parameter(4)\n",
    "step": STEP + "  taus = f32[8,4] broadcast(tau), dimensions={}\n" + MEAN,
    "shapes": ", f32[8,4]",
    "values": ", c",
}
MOVED = {
    "inputs": "  m = f32[8,4] parameter(3)\n  tau = f32[] parameter(4)\n",
    "step": """  taus = f32[8,4] broadcast(tau), dimensions={}
  a = f32[8,4] multiply(m, taus)
  c = f32[8,4] add(a, g)
  kept = f32[8,4] multiply(w, taus)
  s = f32[8,4] multiply(rates, c)
  new = f32[8,4] add(kept, s)
""",
    "shapes": ", f32[8,4]",
    "values": ", c",
}
PLAIN_STEP = {"inputs": "", "step": STEP, "shapes": "", "values": ""}


def said(b: dict[str, str], forward: str = "dot") -> tuple[list[str], str]:
    texts = BEGUN.format(**PLAIN_STEP, forward="dot"), BEGUN.format(**b, forward=forward)
    found = explain_modules(*map(read_module, texts))
    return [str(cause.title) for cause in found.causes], str(found.verdict.message)


def test_an_average_of_weights_that_begins_is_told_as_one() -> None:
    (title,), _ = said(AVERAGED)
    assert "keeps a running average of 1 tensor (input 3 (f32[8,4]))" in title


def test_momentum_and_decay_of_weights_are_no_average() -> None:
    titles, verdict = said(MOVED)
    assert "average" not in "".join((*titles, verdict))


def test_an_average_is_told_beside_another_edit() -> None:
    b = AVERAGED | {"step": AVERAGED["step"].replace("subtract(w, lg)", "maximum(w, lg)")}
    titles, verdict = said(b)
    assert any("running average" in one for one in titles)
    assert "target network or average" in verdict
