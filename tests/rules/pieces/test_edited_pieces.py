"""Pieces of which parts pair that are not each other's: what differs between two ends."""

from __future__ import annotations

import pytest

from xlagraph.explain import explain_modules
from xlagraph.hlo import read_module

ALL = """  s{k} = f32[] reduce({source}, zero), dimensions={{0,1}}, to_apply=sum, {line}
  m{k} = f32[] multiply(s{k}, part), {line}
  r{k} = f32[] rsqrt(m{k}), {line}
  b{k} = f32[4,6] broadcast(r{k}), dimensions={{}}, {line}
"""
ROWS = """  s{k} = f32[4] reduce({source}, zero), dimensions={{1}}, to_apply=sum, {line}
  p{k} = f32[4] broadcast(part), dimensions={{}}, {line}
  m{k} = f32[4] multiply(s{k}, p{k}), {line}
  n{k} = f32[4,1] reshape(m{k}), {line}
  r{k} = f32[4,1] rsqrt(n{k}), {line}
  o{k} = f32[4,1] broadcast(r{k}), dimensions={{0,1}}, {line}
  q{k} = f32[4] reshape(o{k}), {line}
  b{k} = f32[4,6] broadcast(q{k}), dimensions={{0}}, {line}
"""
OUTER = """  e{k} = f32[4] parameter(1)
  b{k} = f32[4,6] broadcast(e{k}), dimensions={{0}}, {line}
"""


def program(*means: str, length: int = 40, parts: tuple[float, ...] = (0.04, 0.04)) -> str:
    """A chain of values, some scaled by a mean; the gradient of each goes back through it."""
    text, source = "", "x"
    for k, mean in enumerate(means):
        line = f'metadata={{op_name="mean" source_file="train.py" source_line={10 + k}}}'
        text += mean.format(k=k, source=source, line=line)
        text += f"  y{k} = f32[4,6] multiply({source}, b{k})\n  g{k} = f32[4,6] sine(b{k})\n"
        source = f"y{k}"
        for j in range(length):
            opcode = ("tanh", "cosine", "exponential")[j % 3]
            text += f"  h{k}_{j} = f32[4,6] {opcode}({source})\n"
            source = f"h{k}_{j}"
    outs = ["y0", source, *(f"g{k}" for k in range(len(means)))]
    shapes = ", ".join(["f32[4,6]"] * len(outs))
    return f"""HloModule step

sum {{
  i = f32[] parameter(0)
  j = f32[] parameter(1)
  ROOT s = f32[] add(i, j)
}}

ENTRY main {{
  x = f32[4,6] parameter(0)
  zero = f32[] constant(0)
  part = f32[] constant({parts[0]})
{text}  ROOT t = ({shapes}) tuple({", ".join(outs)})
}}
"""


def explained(first: str, second: str):
    return explain_modules(read_module(first, "a"), read_module(second, "b"))


def test_a_mean_over_other_axes_is_told_by_where_it_begins():
    found = explained(program(ALL), program(ROWS))
    assert found.proved
    (cause,) = found.causes
    assert str(cause.kind) == "attribute"
    assert "reduce has dimensions: {0,1} -> {1}" in str(cause.title)
    assert "train.py:10" in str(cause.title)


def test_two_places_are_two_causes():
    found = explained(program(ALL, ALL), program(ROWS, ROWS))
    assert found.proved
    lines = {str(line) for cause in found.causes for e in cause.evidence for line in e.sources}
    assert len(found.causes) == 2
    assert lines == {"train.py:10", "train.py:11"}


def test_what_is_most_of_a_module_is_no_piece():
    assert not explained(program(ALL, length=3), program(ROWS, length=3)).proved


@pytest.mark.parametrize("turned", [False, True])
def test_an_input_of_one_side_alone_is_told(turned):
    texts = [program(ALL), program(OUTER)]
    found = explained(*(reversed(texts) if turned else texts))
    said = " ".join(str(e.text) for cause in found.causes for e in cause.evidence)
    titles = " ".join(str(cause.title) for cause in found.causes)
    assert not found.proved or "input 1" in said + titles
