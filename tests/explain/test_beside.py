"""What a verdict says of a second edit beside the first, and of what only follows."""

from __future__ import annotations

from xlagraph.explain import explain_modules
from xlagraph.hlo import read_module


def module(first: str, second: str, rows: int = 4, apart: int = 10) -> str:
    """Two branches over inputs of their own, each with lines, so many apart."""

    def at(line: int) -> str:
        return f'metadata={{op_name="f" source_file="a.py" source_line={line}}}'

    def branch(k: int, operation: str) -> str:
        line = 10 + apart * k
        return (
            f"  s{k} = f32[{rows},3] exponential(x{k}), {at(line)}\n"
            f"  t{k} = f32[{rows},3] {operation.format(f's{k}')}, {at(line + 1)}\n"
            f"  r{k} = f32[{rows},3] log(t{k}), {at(line + 2)}\n"
        )

    inputs = "".join(f"  x{k} = f32[{rows},3] parameter({k})\n" for k in (0, 1))
    text = inputs + branch(0, first) + branch(1, second)
    root = f"  ROOT r = (f32[{rows},3], f32[{rows},3]) tuple(r0, r1)\n"
    return f"HloModule m\nENTRY main {{\n{text}{root}}}\n"


def notes(one: str, other: str) -> str:
    verdict = explain_modules(read_module(one, "a"), read_module(other, "b")).verdict
    return " ".join(map(str, verdict.notes))


def test_a_second_edit_is_told_with_its_line():
    told = notes(module("tanh({})", "cosine({})"), module("sqrt({})", "sine({})"))
    assert "Beside it: " in told
    assert "a.py:21" in told or "a.py:11" in told


def test_one_edit_has_nothing_beside_it():
    assert "Beside" not in notes(module("tanh({})", "cosine({})"), module("tanh({})", "sine({})"))


def test_sizes_are_no_second_edit():
    assert "Beside" not in notes(
        module("tanh({})", "cosine({})"), module("tanh({})", "cosine({})", rows=5)
    )


def test_what_differs_at_one_line_is_one_edit():
    one, other = (
        module("tanh({})", "cosine({})", apart=0),
        module("sqrt({})", "sine({})", apart=0),
    )
    assert "Beside" not in notes(one, other)
