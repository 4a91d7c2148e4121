"""An index that is a name: what the graph takes there tells a number from a slice."""

from __future__ import annotations

import pytest

from xlagraph.cause.model import Context
from xlagraph.explain import explain_modules
from xlagraph.hlo import read_module

WRITTEN = """HloModule written

ENTRY main {
  v = f32[ROWS,4] parameter(0)
  x = f32[16,4] parameter(1)
  zero = f32[] constant(0)
  p = f32[16,4] pad(v, zero), padding=LOW_HIGHx0_0, metadata={source_file="t.py" source_line=3}
  ROOT s = f32[16,4] add(x, p)
}
"""
READ = """HloModule read

ENTRY main {
  x = f32[16,4] parameter(0)
  s = f32[ROWS,4] slice(x), slice={[LOW:HIGH], [0:4]},
    metadata={source_file="t.py" source_line=3}
  ROOT t = f32[ROWS,4] tanh(s)
}
"""


def fix(text: str, line: str, above: str, rows: int) -> str:
    def module(low: int):
        high = low + rows if text is READ else 16 - rows - low
        numbers = {"ROWS": rows, "LOW": low, "HIGH": high}
        whole = text
        for name, number in numbers.items():
            whole = whole.replace(name, str(number))
        return read_module(whole, "m")

    context = Context(program={"t.py": {2: above, 3: line}})
    explanation = explain_modules(module(2), module(5), context, context)
    assert explanation.proved
    (cause,) = explanation.causes
    assert cause.kind.id == "python-index"
    return str(cause.fix)


@pytest.mark.parametrize(("text", "line"), [(WRITTEN, "x[rows] = v"), (READ, "y = x[rows]")])
def test_a_name_as_an_index(text: str, line: str):
    assert "torch.arange(rows.start, rows.stop)" in fix(text, line, "rows = slice(p, p + n)", 4)
    assert "[rows]" not in fix(text, line, "n = 4", 4)
    assert "torch.tensor([rows])" in fix(text, line, "n = 4", 1)
