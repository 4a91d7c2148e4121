"""Turns of a loop that take the true value or the model's own, by a Python draw."""

from __future__ import annotations

import pytest

from xlagraph.explain import explain_modules
from xlagraph.hlo import read_module

AT = 'metadata={op_name="pick" source_file="model.py" source_line=7}'


def decoder(taught: str, *, last: str = "negate", shift: int = 0) -> str:
    """Turns whose next one takes a slice of the target ("t") or what the model says ("m")."""
    lines = [
        "x = f32[4,1] parameter(0)\n  target = f32[4,8] parameter(1)",
        "low = f32[4,1] parameter(2)\n  high = f32[4,1] parameter(3)",
        "h0 = f32[4,1] sine(x)",
    ]
    for k, pick in enumerate(taught, 1):
        places = f"[0:4], [{k + shift}:{k + shift + 1}]"
        picked = (
            f"s{k} = f32[4,1] slice(target), slice={{{places}}}, {AT}"
            if pick == "t"
            else f"s{k} = f32[4,1] clamp(low, h{k - 1}, high), {AT}"
        )
        lines += [
            picked,
            f"e{k} = f32[4,1] convert(s{k})",
            f"u{k} = f32[4,1] tanh(e{k})",
            f"c{k} = f32[4,1] cosine(h{k - 1})",
            f"h{k} = f32[4,1] add(u{k}, c{k})",
        ]
    outputs = [f"u{k}" for k in range(1, len(taught) + 1)]
    lines.append(f"o = f32[4,1] {last}(h{len(taught)})")
    shapes = ", ".join("f32[4,1]" for _ in (*outputs, "o"))
    body = "\n  ".join([*lines, f"ROOT all = ({shapes}) tuple({', '.join((*outputs, 'o'))})"])
    return f"HloModule step\n\nENTRY main {{\n  {body}\n}}\n"


def causes(first: str, second: str) -> list[tuple[str, str]]:
    explanation = explain_modules(read_module(first), read_module(second))
    assert explanation.proved
    return [(cause.kind.id, str(cause.title)) for cause in explanation.causes]


@pytest.mark.parametrize(("first", "second"), [("mt", "tm"), ("mmtm", "mtmm"), ("mtmm", "mmtm")])
def test_the_true_value_in_another_turn_is_another_value(first: str, second: str) -> None:
    ((kind, title),) = causes(decoder(first), decoder(second))
    assert kind == "other-operand"
    others = "operations take other values at model.py:7: " in title
    assert others or "picks one of two values at model.py:7: " in title
    assert (" takes the result of " in title) is others


def test_another_slice_for_the_same_turn_is_a_python_index() -> None:
    ((kind, _),) = causes(decoder("mmtm"), decoder("mmtm", shift=1))
    assert kind == "python-index"


def test_another_operation_beside_them_is_not_passed_over() -> None:
    found = causes(decoder("mmtm"), decoder("mtmm", last="floor"))
    assert not any(kind == "other-operand" for kind, _ in found)
    assert any("negate in A, floor in B" in title for _, title in found)
