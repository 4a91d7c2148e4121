"""The Python numbers of which torch_xla makes constants."""

from __future__ import annotations

import pytest

from xlagraph.explain import explain_modules
from xlagraph.hlo import read_module

STEP = (
    "HloModule m\n\nENTRY e {{\n  w = f32[4] parameter(0)\n  g = f32[4] parameter(1)\n"
    "  rate = f32[] {rate}\n  wide = f32[4] broadcast(rate), dimensions={{}}\n"
    "  step = f32[4] multiply(g, wide)\n  ROOT new = f32[4] add(w, step)\n}}\n"
)


@pytest.mark.parametrize(
    ("constant", "kind", "advice"),
    [
        ("0", "special-scalar", "torch.tensor([value])"),
        ("-0", "special-scalar", "torch.tensor([value])"),
        ("-1", "special-scalar", "torch.tensor([value])"),
        ("2", "static-argument", "static_argnums"),
    ],
)
def test_a_number_that_became_a_constant(constant, kind, advice):
    before = read_module(STEP.format(rate="parameter(2)"), "a")
    after = read_module(STEP.format(rate=f"constant({constant})"), "b")
    (cause,) = explain_modules(before, after).causes
    assert (cause.kind.id, cause.proved) == (kind, True)
    assert advice in str(cause.fix)


GATES = (0.5, 2.0)


def gated(numbers: list[float], *, summed: bool = False) -> str:
    """A value times one number after the other, each as torch_xla lowers it."""
    lines = ["x0 = f32[4] parameter(0)"]
    inputs: dict[float, str] = {}
    for k, number in enumerate(numbers):
        if number in (0, 1, -1):
            name = f"c{k}"
            lines.append(f"{name} = f32[] constant({number})")
        else:
            name = inputs.setdefault(number, f"p{len(inputs)}")
            if len(inputs) - 1 == int(name[1:]) and not any(
                one.startswith(f"{name} ") for one in lines
            ):
                lines.append(f"{name} = f32[] parameter({len(inputs)})")
        lines.append(f"b{k} = f32[4] broadcast({name}), dimensions={{}}")
        lines.append(f"m{k} = f32[4] {'add' if summed else 'multiply'}(x{k}, b{k})")
        opcode = ("sine", "cosine", "tanh", "exponential")[k % 4]
        lines.append(f"x{k + 1} = f32[4] {opcode}(m{k})")
    body = "\n".join(f"  {line}" for line in lines)
    return f"HloModule m\n\nENTRY e {{\n{body}\n  ROOT z = f32[4] negate(x{len(numbers)})\n}}\n"


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ([0, 2, 2, 2], [2, 0, 2, 2]),
        ([0, 2, 2, 1], [2, 2, 0, 1]),
        ([0, 2, 0, 2], [2, 2, 0, 2]),
        ([0, 2, 2, 1], [3, 0, 2, 1]),
        ([1, 1, 1, 1], [2, 0, 2, 0]),
    ],
)
def test_numbers_that_become_special_as_others_cease_to_be(before, after):
    first, second = read_module(gated(before), "a"), read_module(gated(after), "b")
    for one, other in ((first, second), (second, first)):
        found = explain_modules(one, other).causes
        assert {(cause.kind.id, cause.proved) for cause in found} == {("special-scalar", True)}


def test_another_operation_beside_the_numbers_is_told():
    first = read_module(gated([0, 2, 2, 2]), "a")
    second = read_module(gated([2, 0, 2, 2]).replace("tanh", "sqrt"), "b")
    explanation = explain_modules(first, second)
    assert not explanation.proved or len({c.kind.id for c in explanation.causes}) > 1


def test_numbers_at_other_places_are_another_computation():
    first = read_module(gated([0, 2, 2, 2]), "a")
    second = read_module(gated([2, 0, 2, 2], summed=True), "b")
    explanation = explain_modules(first, second)
    assert {c.kind.id for c in explanation.causes if c.proved} != {"special-scalar"}


@pytest.mark.parametrize(("shape", "advice"), [("s64", "Expected once"), ("f32", "learning rate")])
def test_a_count_of_an_optimizer_is_no_rate(shape, advice):
    line = 'metadata={source_file="/env/site-packages/torch/optim/swa_utils.py" source_line=9}'
    text = STEP.replace("f32", shape).replace(
        "{rate}", "{rate}, " + line.replace("{", "{{").replace("}", "}}")
    )
    before = read_module(text.format(rate="constant(1)"), "a")
    after = read_module(text.format(rate="parameter(2)"), "b")
    (cause,) = explain_modules(before, after).causes
    assert (cause.kind.id, cause.proved) == ("special-scalar", True)
    assert advice in str(cause.fix_in_short)
