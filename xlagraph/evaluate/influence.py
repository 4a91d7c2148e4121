"""Whether a value within a module makes a difference to what the module gives back.

Where a bound or a branch hides what stands before it, two ways to compute that look alike.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from xlagraph.cause.editor import ModuleEditor
from xlagraph.errors import XlagraphError
from xlagraph.evaluate.agreement import are_close
from xlagraph.evaluate.budget import Budget
from xlagraph.evaluate.domains import positive_inputs
from xlagraph.evaluate.draws import POINTS, arguments_at
from xlagraph.evaluate.program import Program
from xlagraph.hlo.shapes import read_shape

if TYPE_CHECKING:
    from collections.abc import Iterable

    from xlagraph.graph import Module


def all_count(module: Module, instructions: Iterable[int]) -> bool:
    """Whether another value of each of these instructions changes an output at some arguments.

    False as well where that cannot be told: an instruction is not evaluated, or costs too much.
    They are instructions of the entry computation.
    """
    try:
        whole = Program(module)
        budget = Budget()
        return all(_counts(whole, i, budget) for i in instructions)
    except XlagraphError:
        return False


def _counts(whole: Program, instruction: int, budget: Budget) -> bool:
    module = whole.module
    editor = ModuleEditor(module)
    editor.become_parameter([instruction], module.shapes[instruction])
    changed = Program(with_root_shape(editor.build()))
    places = {p: k for k, p in enumerate(module.entry_computation.parameters)}
    shapes = (*whole.parameters, read_shape(module.shapes[instruction]))
    positive = positive_inputs(module)
    for point in range(POINTS):
        drawn = arguments_at(point, shapes, positive)
        given = [
            drawn[places.get(p, len(places))] for p in changed.module.entry_computation.parameters
        ]
        before = whole.run(drawn[:-1], budget, point + 1)
        after = changed.run(given, budget, point + 1)
        if not all(map(are_close, before, after)):
            return True
    return False


def with_root_shape(edited: Module) -> Module:
    """An edited module with the shape of the tuple that it gives back, so that it can run."""
    if not edited.gives_tuple:
        return edited
    shapes = list(edited.shapes)
    root = edited.entry_computation.root
    shapes[root] = f"({', '.join(shapes[i] for i in edited.operands[root])})"
    return replace(edited, shapes=shapes)
