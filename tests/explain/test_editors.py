"""Edits of a module that have nothing to do with each other, in any order."""

from xlagraph.cause.case import Case
from xlagraph.cause.editor import Editors, ModuleEditor
from xlagraph.diff import diff_modules
from xlagraph.hlo import read_module
from xlagraph.rules.training.rematerialization import RULE as REMATERIALIZATION

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


BARRIER = """HloModule m

ENTRY e {
  p = f32[4] parameter(0)
  q = f32[4] parameter(1)
  t = (f32[4], f32[4]) tuple(p, q)
  b = (f32[4], f32[4]) opt-barrier(t)
  x = f32[4] get-tuple-element(b), index=0
  y = f32[4] get-tuple-element(b), index=1
  ROOT c = f32[4] add(x, y)
}
"""


def test_a_barrier_whose_tuple_has_become_shorter_is_opened_for_the_rest():
    plain = read_module(BARRIER.replace("opt-barrier(t)", "copy(t)"), "a")
    module = read_module(BARRIER, "b")
    case = Case.of(diff_modules(plain, module))
    (finding,) = REMATERIALIZATION.find(case)
    edit = Editors(ModuleEditor(plain), ModuleEditor(module))
    p, t, y, c = (module.names.index(name) for name in "ptyc")
    edit.b.set_operands(t, [p])
    finding.undo(edit)
    assert edit.b.operands[c] == (p, y)
