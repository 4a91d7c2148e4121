"""Operations that are the same on both sides and take other values."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest

from xlagraph.cause.case import Case
from xlagraph.cause.model import Context
from xlagraph.diff import diff_modules
from xlagraph.explain import explain_modules
from xlagraph.facts.pieces.wires import Wires
from xlagraph.hlo import read_module
from xlagraph.rules.order.rewired_operations import _other_layers
from xlagraph.tensors import Tensor

PAIRS = Path(__file__).resolve().parents[3] / "fixtures" / "module_pairs"
REWIRED = "connected in another order"


def texts() -> tuple[str, str]:
    """A step of blocks that are normed after their sum, and of those normed before the layers."""
    first, second = (PAIRS / f"norm_before_layers.{side}.hlo.gz" for side in "ab")
    return gzip.decompress(first.read_bytes()).decode(), gzip.decompress(
        second.read_bytes()
    ).decode()


def titles(first: str, second: str) -> list[str]:
    causes = explain_modules(read_module(first), read_module(second)).causes
    return [str(cause.title) for cause in causes]


def test_what_the_operations_take_is_told_on_both_sides() -> None:
    first, second = texts()
    explanation = explain_modules(read_module(first), read_module(second))
    assert explanation.proved
    told = str(explanation.causes[0].title)
    assert REWIRED in told
    assert " in B and the result of " in told


def test_another_operation_beside_them_is_not_passed_over() -> None:
    first, second = texts()
    other = second.replace(" tanh(", " cosine(", 1)
    assert other != second
    assert not any(REWIRED in title for title in titles(first, other))


def test_a_few_operations_that_make_up_the_module_are_no_other_order() -> None:
    text = """HloModule step

ENTRY main {{
  x = f32[4,4] parameter(0)
  a = f32[4,4] tanh(x)
  b = f32[4,4] add(a, {0})
  c = f32[4,4] cosine(b)
  d = f32[4,4] add({1}, a)
  ROOT t = (f32[4,4]) tuple(d)
}}
"""
    assert not any(
        REWIRED in title for title in titles(text.format("x", "c"), text.format("a", "b"))
    )


def crossed(first: str, second: str, rest: int, last: str = "negate") -> str:
    """Six times one value squashed and another scaled, by the names of what is."""
    lines = []
    for k in range(6):
        shape = f"f32[4,{k + 2}]"
        lines += [f"p{k} = {shape} parameter({k})", f"h{k}x0 = {shape} {last}(p{k})"]
        lines += [f"h{k}x{j + 1} = {shape} sine(h{k}x{j})" for j in range(rest)]
        lines += [f"v{k} = {shape} exponential(h{k}x{rest})", f"w{k} = {shape} log(h{k}x{rest})"]
        lines += [f"o{k} = {shape} tanh({first}{k})", f"u{k} = {shape} cosine({second}{k})"]
    shapes = ", ".join(f"f32[4,{k + 2}]" for k in range(6) for _ in "ou")
    outputs = ", ".join(f"{name}{k}" for k in range(6) for name in "ou")
    body = "\n  ".join([*lines, f"ROOT t = ({shapes}) tuple({outputs})"])
    return f"HloModule step\n\nENTRY main {{\n  {body}\n}}\n"


def is_rewired(rest: int, last: str = "negate") -> bool:
    first, second = crossed("v", "w", rest), crossed("w", "v", rest, last)
    return any(REWIRED in title for title in titles(first, second))


def test_a_statement_may_stand_elsewhere_for_each_weight() -> None:
    assert is_rewired(rest=8)


def test_where_much_takes_other_values_they_are_not_alike() -> None:
    assert not is_rewired(rest=4)


def test_beside_operations_of_one_side_only_few_may_take_other_values() -> None:
    assert not is_rewired(rest=8, last="floor")


LAYERED = ("scale", "shift", "gain")


def layered(*runs):
    """Two micro-batches in one graph, each through the layers that Python has picked for it."""
    lines, number = "", 0
    for k, layers in enumerate(runs):
        last = f"%x{k}"
        for layer in layers:
            for name, opcode in zip(LAYERED, ("multiply", "add", "multiply"), strict=True):
                weight = f"%{name}{layer}"
                lines += f"  %v{number} = f32[8]{{0}} {opcode}(f32[8]{{0}} {last}, {weight})\n"
                last, number = f"%v{number}", number + 1
        lines += f"  %o{k} = f32[8]{{0}} sine(f32[8]{{0}} {last})\n"
    inputs = ["%x0", "%x1", *(f"%{name}{layer}" for layer in (1, 2) for name in LAYERED)]
    taken = "".join(f"  {one} = f32[8]{{0}} parameter({k})\n" for k, one in enumerate(inputs))
    types = ", ".join(f"{one[1:]}: f32[8]" for one in inputs)
    root = "  ROOT %t = (f32[8]{0}, f32[8]{0}) tuple(f32[8]{0} %o0, f32[8]{0} %o1)\n"
    text = lines.replace(", %", ", f32[8]{0} %")
    return read_module(
        f"HloModule step\n\nENTRY %main ({types}) -> (f32[8], f32[8]) {{\n{taken}{text}{root}}}\n"
    )


@pytest.mark.parametrize(
    ("owner", "places"),
    [
        ("encoder.layers.{}.norm", ("encoder.layers.1", "encoder.layers.2")),
        ("blocks.{}", ("blocks.1", "blocks.2")),
        ("encoder.{}_norm", None),
    ],
)
def test_weights_tell_of_another_layer_in_place_of_one(owner, places):
    """LayerDrop where two micro-batches are one graph: each layer runs in one of them at least."""
    names = [(layer, name) for layer in (1, 2) for name in LAYERED]
    tensors = {k + 2: Tensor(owner.format(layer), name) for k, (layer, name) in enumerate(names)}
    context = Context(parameters=tensors)
    diff = diff_modules(layered((1,), (1, 2)), layered((2,), (1, 2)))
    wires = Wires({}, {}, tuple((one.a, one.b) for one in diff.changes), ())
    assert _other_layers(Case.of(diff, context, context), wires) == places
