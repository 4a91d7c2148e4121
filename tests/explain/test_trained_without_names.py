"""Modules that say neither what their tensors are called nor which buffers they give away."""

from __future__ import annotations

import pytest

from xlagraph.explain import explain_modules
from xlagraph.hlo import read_module

STEP = """  t{k} = f32[8,8] transpose(g{k}), dimensions={{1,0}}
  d{k} = f32[8,8] dot(t{k}, h{below}), lhs_contracting_dims={{1}}, rhs_contracting_dims={{0}}
  s{k} = f32[8,8] multiply(d{k}, rates)
  n{k} = f32[8,8] subtract(w{k}, s{k})
"""
BACK = """  b{k} = f32[8,8] dot(g{k}, w{k}), lhs_contracting_dims={{1}}, rhs_contracting_dims={{1}}
  g{below} = f32[8,8] multiply(b{k}, h{below})
"""


def trained(*layers: int, keep: str = "") -> str:
    """Three layers, of which some are trained; an output more if `keep` names a value."""
    text = "HloModule step\n\nENTRY main {\n  h0 = f32[8,8] parameter(0)\n"
    text += "  rate = f32[] parameter(1)\n  rates = f32[8,8] broadcast(rate), dimensions={}\n"
    for k in (1, 2, 3):
        text += f"""  w{k} = f32[8,8] parameter({k + 1})
  m{k} = f32[8,8] dot(h{k - 1}, w{k}), lhs_contracting_dims={{1}}, rhs_contracting_dims={{0}}
  h{k} = f32[8,8] tanh(m{k})
"""
    text += "  g3 = f32[8,8] cosine(h3)\n"
    for k in (3, 2, 1):
        if k in layers:
            text += STEP.format(k=k, below=k - 1)
        if k > 1:
            text += BACK.format(k=k, below=k - 1)
    text += "  still = f32[8,8] subtract(w1, h0)\n"
    outs = ["h3", *(f"n{k}" for k in layers), *([keep] if keep else [])]
    types = ", ".join(["f32[8,8]"] * len(outs))
    return f"{text}  ROOT r = ({types}) tuple({', '.join(outs)})\n}}\n"


def kinds(first: str, second: str) -> list[str]:
    found = explain_modules(read_module(first, "a"), read_module(second, "b"))
    return [str(cause.kind) for cause in found.causes]


@pytest.mark.parametrize("turned", [False, True])
def test_a_layer_that_is_unfrozen_is_trained_in_some_steps(turned):
    pair = [trained(3), trained(3, 2, 1)]
    assert kinds(*(reversed(pair) if turned else pair)) == ["newly-updated"]


def test_gradients_that_live_on_are_those_of_the_update():
    assert kinds(trained(3), trained(3, 2, keep="d2")) == ["newly-updated"]


@pytest.mark.parametrize("kept", ["still", "h1"])
def test_what_is_kept_is_no_update(kept):
    assert kinds(trained(3), trained(3, keep=kept)) == ["live-tensor"]


def with_momentum(text: str, *layers: int) -> str:
    """The same with momentum, which is taken in and given out as well."""
    added, outs, types = "", "", ""
    for number, k in enumerate(layers):
        added += f"  v{k} = f32[8,8] parameter({number + 5})\n"
        added += f"  keep{k} = f32[8,8] multiply(v{k}, rates)\n"
        text = text.replace(f"multiply(d{k}, rates)", f"add(keep{k}, d{k})")
        outs, types = f"{outs}, s{k}", types + ", f32[8,8]"
    text = text.replace("  g3 = ", added + "  g3 = ")
    return text.replace(") tuple(", f"{types}) tuple(").replace(")\n}", f"{outs})\n}}")


def test_momentum_that_comes_with_the_training_does_not_hide_it():
    second = with_momentum(trained(3, 2, 1), 3, 2, 1)
    found = kinds(with_momentum(trained(3), 3), second)
    assert found == ["newly-updated"]


def test_momentum_that_begins_for_all_is_more_than_another_layers_training():
    assert kinds(trained(3), with_momentum(trained(3, 2), 2)) == ["newly-updated"]
    assert len(kinds(trained(3), with_momentum(trained(3, 2), 3, 2))) > 1
