"""Edits of a module that have nothing to do with each other, in any order."""

from xlagraph.cause.editor import ModuleEditor
from xlagraph.hlo import read_module

TEXT = """HloModule m

ENTRY e {
  p = f32[4] parameter(0)
  n = f32[4] negate(p)
  ROOT c = f32[4] cosine(n)
}
"""


def test_an_operand_of_what_has_become_a_parameter_is_not_set():
    module = read_module(TEXT, "m")
    editor = ModuleEditor(module)
    p, n, _ = range(3)
    editor.become_parameter([n], "f32[4]")
    editor.set_operand(n, 0, p)
    built = editor.build()
    assert [built.opcodes[i] for i in built.entry_computation.parameters] == ["parameter"]
    assert built.operands[n] == ()
