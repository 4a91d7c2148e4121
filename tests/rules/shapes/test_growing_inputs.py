"""A carried tensor grows where it is made longer, wherever else it is joined with something."""

from __future__ import annotations

import pytest

from xlagraph.explain import explain_modules
from xlagraph.hlo import read_module


def attention(rows: int, given_back: str = "kept") -> str:
    """A memory that is joined for an attention (line 4), and kept with what is new (line 9)."""
    use, keep = (f'metadata={{source_file="t.py" source_line={line}}}' for line in (4, 9))
    return f"""HloModule step

ENTRY main {{
  memory = f32[{rows},4] parameter(0), {use}
  new = f32[8,4] parameter(1), {use}
  all = f32[{rows + 8},4] concatenate(memory, new), dimensions={{0}}, {use}
  t = f32[{rows + 8},4] tanh(all), {use}
  kept = f32[{rows + 8},4] concatenate(memory, new), dimensions={{0}}, {keep}
  ROOT r = (f32[{rows + 8},4], f32[{rows + 8},4]) tuple(t, {given_back})
}}
"""


@pytest.mark.parametrize(("given_back", "line"), [("kept", 9), ("all", 4)])
def test_the_line_is_the_one_that_makes_it_longer(given_back, line):
    a, b = (read_module(attention(rows, given_back), "m") for rows in (8, 16))
    found = explain_modules(a, b)
    assert found.proved
    assert str(found.causes[0].kind) == "growing-input"
    assert str(found.verdict.where) == f"t.py:{line}"
