"""Equal expressions merged: common-subexpression elimination in a module editor."""

from __future__ import annotations

from typing import TYPE_CHECKING

from xlagraph.canon.labels import Interner, label_instructions
from xlagraph.canon.live import DRAWS, has_effect
from xlagraph.canon.structure import expression_number, number_computations

if TYPE_CHECKING:
    from xlagraph.cause.editor import Editors, ModuleEditor
    from xlagraph.graph import Module


def merge_both(edit: Editors) -> None:
    """Merges equal expressions in both modules."""
    for editor in edit:
        merge_expressions(editor)


def merge_expressions(editor: ModuleEditor) -> None:
    """Common-subexpression elimination of the entry computation, in place."""
    module = editor.build()
    interner = Interner()
    labels = list(label_instructions(module, interner))
    entry = module.entry_computation
    for number, p in enumerate(entry.parameters):
        if module.opcodes[p] == "parameter":
            labels[p] = interner.number(("parameter", number))
    computations = number_computations(module, labels, interner)
    expressions = [-1] * len(module)
    first: dict[int, int] = {}
    partners: dict[int, int] = {}
    for i in range(entry.start, entry.stop):
        expressions[i] = expression_number(
            module, i, labels[i], expressions, computations, interner
        )
        kept = first.setdefault(expressions[i], i)
        if kept != i and not counts_each_time(module, i):
            partners[i] = kept
    editor.replace_uses(partners)


def counts_each_time(module: Module, i: int) -> bool:
    """Whether it matters how often an instruction runs: it draws numbers, or acts on the world."""
    return module.opcodes[i] in DRAWS or has_effect(module, i)
