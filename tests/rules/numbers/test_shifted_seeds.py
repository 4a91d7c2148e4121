"""A draw that one side has more, before others: what follows starts from other seeds."""

from __future__ import annotations

import pytest

from xlagraph.cause.case import Case
from xlagraph.diff import diff_modules
from xlagraph.explain import explain_modules
from xlagraph.hlo import read_module
from xlagraph.rules.numbers.shifted_seeds import find


def network(
    *dropped: int, order: tuple[int, ...] = (), step: int = 214013, last: str = "tanh"
) -> str:
    """Four layers, some with dropout: the draws take the steps of one seed, in their order.

    Args:
        dropped: the layers behind which something is dropped.
        order: the places of the draws in the chain of seeds, where not that of the layers.
        step: what a seed is multiplied by.
        last: what is computed in the end.
    """
    parts = []
    for k in range(len(dropped)):
        before = f"seed{k - 1}" if k else "seed"
        parts.append(
            f"  c{k} = s64[] constant({step})\n  d{k} = s64[] constant(2531011)\n"
            f"  m{k} = s64[] multiply(c{k}, {before})\n  seed{k} = s64[] add(d{k}, m{k})\n"
        )
    value = "x"
    for layer in range(4):
        parts.append(
            f"  w{layer} = f32[8,8] parameter({layer + 2})\n"
            f"  h{layer} = f32[4,8] dot({value}, w{layer}), lhs_contracting_dims={{1}}, "
            f"rhs_contracting_dims={{0}}\n"
        )
        value = f"h{layer}"
        if layer in dropped:
            place = (order or range(4))[dropped.index(layer)]
            parts.append(
                f"  u{layer} = u64[] convert(seed{place})\n"
                f"  r{layer} = u64[1] reshape(u{layer})\n"
                f"  z{layer} = u64[1] constant({{0}})\n"
                f"  s{layer} = u64[2] concatenate(r{layer}, z{layer}), dimensions={{0}}\n"
                f"  g{layer} = (u64[2], u32[4,8]) rng-bit-generator(s{layer}), "
                f"algorithm=rng_default\n"
                f"  b{layer} = u32[4,8] get-tuple-element(g{layer}), index=1\n"
                f"  f{layer} = f32[4,8] convert(b{layer})\n"
                f"  o{layer} = f32[4,8] multiply({value}, f{layer})\n"
            )
            value = f"o{layer}"
    return (
        "HloModule m\n\nENTRY e {\n  x = f32[4,8] parameter(0)\n  seed = s64[] parameter(1)\n"
        + "".join(parts)
        + f"  ROOT y = f32[4,8] {last}({value})\n}}\n"
    )


def explained(a: str, b: str):
    return explain_modules(read_module(a, "a"), read_module(b, "b"))


@pytest.mark.parametrize("less", [(1, 2, 3), (0, 2, 3), (1, 3), (3,)])
@pytest.mark.parametrize("turned", [False, True])
def test_draws_of_one_side_before_others(less, turned):
    texts = [network(0, 1, 2, 3), network(*less)]
    explanation = explained(*reversed(texts)) if turned else explained(*texts)
    assert explanation.proved
    (cause,) = explanation.causes
    assert cause.kind.id == "random-numbers"
    assert ("B" if turned else "A") + " draws random numbers" in str(cause.title)
    assert "of the seed" in str(cause.proof)


def test_a_draw_behind_all_others_shifts_none():
    a, b = (read_module(network(*dropped)) for dropped in ((0, 1, 2), (0, 1)))
    assert not find(Case.of(diff_modules(a, b)))
    explanation = explain_modules(a, b)
    assert explanation.proved
    assert "of the seed" not in str(explanation.causes[0].proof)


@pytest.mark.parametrize(
    "other",
    [
        network(0, 1, 2, order=(1, 0, 2)),  # two uses have taken each other's seeds
        network(0, 1, 2, order=(0, 0, 2)),  # two uses share one seed
        network(0, 1, 2, step=214012),
    ],
)
def test_seeds_that_are_others_for_another_reason(other: str):
    a, b = read_module(network(0, 1, 2)), read_module(other)
    assert not find(Case.of(diff_modules(a, b)))
    assert "random-numbers" not in [cause.kind.id for cause in explain_modules(a, b).causes]


def test_what_else_differs_is_told_beside_it():
    explanation = explained(network(0, 1, 2, 3), network(1, 2, 3, last="cosine"))
    assert explanation.proved
    found = {cause.kind.id for cause in explanation.causes}
    assert found == {"random-numbers", "replaced-subgraph"}


def test_a_step_computed_otherwise_is_no_draw_of_one_side():
    text = network(0, 1, 2)
    edited = text.replace("seed0 = s64[] add(d0, m0)", "seed0 = s64[] divide(d0, m0)")
    assert edited != text
    assert not find(Case.of(diff_modules(read_module(text), read_module(edited))))
    explanation = explained(text, edited)
    assert explanation.proved
    assert [cause.kind.id for cause in explanation.causes] == ["replaced-subgraph"]
