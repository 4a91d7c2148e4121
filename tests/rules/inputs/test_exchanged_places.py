"""Inputs that take each other's places, where another cause has set outputs aside."""

from __future__ import annotations

import pytest

from xlagraph.cause.editor import ModuleEditor
from xlagraph.hlo import read_module
from xlagraph.rules.inputs.exchanged_inputs import _Exchange, _put_back

TEXT = """HloModule m
ENTRY e {
  p = f32[4] parameter(0)
  q = f32[4] parameter(1)
  x = f32[4] negate(p)
  y = f32[4] abs(q)
  ROOT r = (f32[4], f32[4]) tuple(x, y)
}
"""


@pytest.mark.parametrize(("kept", "outputs"), [(2, ["y", "x"]), (1, ["x"])])
def test_outputs_that_were_set_aside_have_no_places(kept, outputs):
    module = read_module(TEXT)
    editor = ModuleEditor(module)
    editor.outputs = editor.outputs[:kept]
    _put_back(editor, _Exchange({0: 1, 1: 0}, [1, 0]))
    assert [module.names[i] for i in editor.outputs] == outputs
    assert [editor.operands[i] for i in (2, 3)] == [(1,), (0,)]
