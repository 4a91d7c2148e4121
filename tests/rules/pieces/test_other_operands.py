"""Operations that take other values than on the other side, of those that both sides have."""

from __future__ import annotations

from itertools import pairwise, product

import pytest

from xlagraph.explain import explain_modules
from xlagraph.hlo import read_module

SIZES = (4, 5, 6, 7)
CONTRACTED = "lhs_contracting_dims={1}, rhs_contracting_dims={0}"


def network(name: str, weights: str, before: str) -> str:
    """Three layers, with a bias that is broadcast, on the weights and biases of one set."""
    lines = []
    for k, size in enumerate(SIZES[1:]):
        one = f"{name}_{k}"
        lines += [
            f"  {one}_d = f32[4,{size}] dot({before}, {weights}_w{k}), {CONTRACTED}",
            f"  {one}_b = f32[4,{size}] broadcast({weights}_b{k}), dimensions={{1}}",
            f"  {one}_s = f32[4,{size}] add({one}_d, {one}_b)",
            f"  {one} = f32[4,{size}] tanh({one}_s)",
        ]
        before = one
    return "\n".join(lines)


def q_learning(best: str, *, scale: float = 0.5) -> str:
    """One step on the values of the own network, the target network and the one that picks."""
    shapes = []
    for n, m in pairwise(SIZES):
        shapes += [f"f32[{n},{m}]", f"f32[{m}]"]
    names = [f"{one}{k}" for k in range(3) for one in "wb"]
    inputs = [
        f"  {one}_{name} = {shape} parameter({number})"
        for number, (one, (name, shape)) in enumerate(
            product(("own", "target"), zip(names, shapes, strict=True)), 2
        )
    ]
    news = [f"new_{name}" for name in names]
    return "\n".join(
        [
            "HloModule q_learning\n\nENTRY main {",
            "  x = f32[4,4] parameter(0)\n  y = f32[4,4] parameter(1)",
            *inputs,
            network("value", "own", "x"),
            network("then", "target", "y"),
            network("best", best, "y"),
            f"  half = f32[] constant({scale})",
            "  halves = f32[4,7] broadcast(half), dimensions={}",
            "  scaled = f32[4,7] multiply(then_2, halves)",
            "  picked = f32[4,7] subtract(scaled, best_2)",
            "  error = f32[4,7] subtract(value_2, picked)",
            *(
                f"  new_{name} = {shape} exponential(own_{name})"
                for name, shape in zip(names, shapes, strict=True)
            ),
            f"  ROOT all = (f32[4,7], {', '.join(shapes)}) tuple(error, {', '.join(news)})\n}}\n",
        ]
    )


@pytest.mark.parametrize("turned", [False, True])
def test_another_set_of_weights_is_one_cause(turned: bool):
    texts = [q_learning("own"), q_learning("target")]
    a, b = (read_module(text) for text in (reversed(texts) if turned else texts))
    explanation = explain_modules(a, b)
    (cause,) = explanation.causes
    assert cause.proved
    assert cause.kind.id == "other-operand"
    title = str(cause.title)
    assert title.startswith("6 operations take other values: dot takes input ")
    own, target = "input 2 (f32[4,5])", "input 8 (f32[4,5])"
    in_a, in_b = (target, own) if turned else (own, target)
    assert f"dot takes {in_b} in B and {in_a} in A" in title
    cited_a = {a.names[i] for one in cause.evidence for i in one.a}
    cited_b = {b.names[i] for one in cause.evidence for i in one.b}
    assert {"best_0_d", "best_2_b", "own_w0", "own_b2"} <= (cited_b if turned else cited_a)
    assert {"best_0_d", "best_2_b", "target_w0", "target_b2"} <= (cited_a if turned else cited_b)


def test_it_is_found_beside_another_cause():
    a, b = read_module(q_learning("own")), read_module(q_learning("target", scale=0.25))
    explanation = explain_modules(a, b)
    assert explanation.proved
    assert {cause.kind.id for cause in explanation.causes} == {"constant-value", "other-operand"}


def lion(direction: str, *, kept: str = "new", donated: str = "0, 1") -> str:
    """A weight that goes by the sign of a momentum, which comes in and is given back."""
    donors = ", ".join(f"({one}, {{}})" for one in donated.split(", "))
    return f"""HloModule lion, buffer_donor={{ {donors} }}

ENTRY main {{
  w = f32[4] parameter(0)
  m = f32[4] parameter(1)
  g = f32[4] parameter(2)
  new = f32[4] add(m, g)
  sum = f32[4] subtract({direction}, g)
  sign = f32[4] sign(sum)
  moved = f32[4] subtract(w, sign)
  loss = f32[4] exponential(new)
  ROOT all = (f32[4], f32[4], f32[4]) tuple(moved, {kept}, loss)
}}
"""


@pytest.mark.parametrize("turned", [False, True])
def test_a_tensor_is_used_before_or_after_its_update(turned: bool):
    texts = [lion("m"), lion("new")]
    a, b = (read_module(text) for text in (reversed(texts) if turned else texts))
    (cause,) = explain_modules(a, b).causes
    assert cause.proved
    assert cause.kind.id == "other-operand"
    later, earlier = "AB" if turned else "BA"
    uses = f"{later} uses input 1 (f32[4]) after its update, {earlier} before it, in 1 operation"
    assert str(cause.title) == uses
    in_short = f"used after the update in {later}, before it in {earlier}"
    assert str(cause.in_short) == f"input 1 (f32[4]): {in_short}"


@pytest.mark.parametrize("inputs", [{"kept": "g"}, {"donated": "0"}], ids=["lost", "data"])
def test_what_takes_no_input_s_place_is_no_update(inputs):
    a, b = (read_module(lion(one, **inputs)) for one in ("m", "new"))
    (cause,) = explain_modules(a, b).causes
    assert cause.proved
    assert "subtract takes new (f32[4]) in B and input 1 (f32[4]) in A" in str(cause.title)
