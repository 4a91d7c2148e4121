"""Layers that are trained in turn: each graph updates other tensors by the same operations."""

from __future__ import annotations

import pytest

from xlagraph.explain import explain_modules
from xlagraph.hlo import read_module

LAYERS = 4
AXES = "lhs_contracting_dims={1}, rhs_contracting_dims={0}"


def step(trained: tuple[int, ...], *, donated: bool = True) -> str:
    """A step over layers of one shape that updates some of them by their gradients."""
    donors = ", ".join(f"({k + 1}, {{}})" for k in trained)
    header = f", buffer_donor={{ {donors} }}" if donated else ""
    weights = [f"w{k} = f32[4,4] parameter({k + 1})" for k in range(LAYERS)]
    body, last = [], "x"
    for k in range(LAYERS):
        body += [
            f"d{k} = f32[4,4] dot({last}, w{k}), {AXES}",
            f"h{k} = f32[4,4] tanh(d{k})",
            f"s{k} = f32[4,4] sine(h{k})",
        ]
        last = f"h{k}"
    news = []
    for k in trained:
        body += [
            f"g{k} = f32[4,4] multiply(s{k}, h{k})",
            f"c{k} = f32[4,4] cosine(g{k})",
            f"n{k} = f32[4,4] subtract(w{k}, c{k})",
        ]
        news.append(f"n{k}")
    kept = [f"s{k}" for k in range(LAYERS)]
    text = "\n  ".join((*weights, *body))
    shapes = ", ".join("f32[4,4]" for _ in (*news, *kept))
    return f"""HloModule step{header}

ENTRY main {{
  x = f32[4,4] parameter(0)
  {text}
  ROOT r = ({shapes}) tuple({", ".join((*news, *kept))})
}}
"""


@pytest.mark.parametrize("donated", [True, False])
def test_tensors_that_are_updated_in_turn_are_told_as_that(donated: bool) -> None:
    a, b = (read_module(step(own, donated=donated)) for own in ((0, 1), (2, 3)))
    explanation = explain_modules(a, b)
    assert str(explanation.verdict.what) == (
        "Other tensors are updated: input 1 (f32[4,4]) and 1 more in A, "
        "input 3 (f32[4,4]) and 1 more in B."
    )
    assert str(explanation.verdict.fix).startswith("Update all in every step")
    assert not any(explanation.verdict.notes)


def test_the_same_updates_are_the_same() -> None:
    a, b = (read_module(step((1, 3))) for _ in range(2))
    assert explain_modules(a, b).same
