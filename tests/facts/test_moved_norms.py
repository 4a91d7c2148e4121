"""Normalisations before a residual block and behind its sum, and what only looks alike."""

from __future__ import annotations

import pytest

from xlagraph.diff import diff_modules
from xlagraph.facts.training.moved_norms import moved_norms
from xlagraph.hlo import read_module

PLACE = 'metadata={{op_type="aten__add" source_file="net.py" source_line={}}}'
NORM = """  s{n} = (f32[6,8], f32[8], f32[8]) batch-norm-training({x}, scale, scale), \
epsilon=1e-05, feature_index=1
  n{n} = f32[6,8] get-tuple-element(s{n}), index=0
"""


def before(n: int, x: str) -> tuple[str, str]:
    block = f"  f{n} = f32[6,8] tanh(n{n})\n"
    total = f"  y{n} = f32[6,8] add({x}, f{n}), {PLACE.format(20)}\n"
    return NORM.format(n=n, x=x) + block + total, f"y{n}"


def behind(n: int, x: str) -> tuple[str, str]:
    block = f"  f{n} = f32[6,8] tanh({x})\n"
    total = f"  y{n} = f32[6,8] add({x}, f{n}), {PLACE.format(30)}\n"
    return block + total + NORM.format(n=n, x=f"y{n}"), f"n{n}"


def biased(n: int, x: str) -> tuple[str, str]:
    total = f"  y{n} = f32[6,8] add({x}, bias), {PLACE.format(40)}\n"
    return total + NORM.format(n=n, x=f"y{n}"), f"n{n}"


def module(*blocks):
    text, x = "", "h"
    for n, block in enumerate(blocks):
        more, x = block(n, x)
        text += more
    return read_module(f"""HloModule step

ENTRY main {{
  x = f32[6,8] parameter(0)
  h = f32[6,8] exponential(x)
  scale = f32[8] parameter(1)
  bias = f32[6,8] broadcast(scale), dimensions={{1}}
{text}  ROOT r = f32[6,8] negate({x})
}}
""")


@pytest.mark.parametrize(
    ("first", "second", "told", "line"),
    [
        ((before, before), (before, behind), "before a block in A and behind the block", 30),
        ((behind, behind), (before, behind), "before a block in B and behind the block", 20),
    ],
)
def test_a_normalisation_that_changed_place(first, second, told, line):
    found = moved_norms(diff_modules(module(*first), module(*second)))
    assert found is not None
    assert str(found.what).startswith("1 normalisation stands")
    assert told in str(found.what)
    assert found.line is not None
    assert found.line.line == line


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ((before, behind), (before, behind)),
        ((before, before), (before,)),
        ((before, before), (before, biased)),
    ],
)
def test_a_normalisation_that_did_not(first, second):
    assert moved_norms(diff_modules(module(*first), module(*second))) is None
