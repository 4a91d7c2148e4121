"""Whether a value within a module makes a difference to what the module gives back.

Where a bound or a branch hides what stands before it, two ways to compute that look alike.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from xlagraph.errors import XlagraphError
from xlagraph.evaluate.agreement import are_close
from xlagraph.evaluate.budget import Budget
from xlagraph.evaluate.draws import POINTS, arguments_at
from xlagraph.evaluate.program import Program
from xlagraph.hlo.shapes import read_shape

if TYPE_CHECKING:
    from collections.abc import Iterable

    from xlagraph.evaluate.step import Array
    from xlagraph.graph import Module


def all_count(module: Module, instructions: Iterable[int]) -> bool:
    """Whether another value of each of these instructions changes an output at some arguments.

    False as well where that cannot be told: an instruction is not evaluated, or costs too much.
    They are instructions of the entry computation.
    """
    try:
        asked = _Asked(Program(module), Budget())
        return all(map(asked.counts, instructions))
    except XlagraphError:
        return False


@dataclass(frozen=True, slots=True, eq=False)
class _Asked:
    """A module, with what it gives back at the points that were asked."""

    whole: Program
    budget: Budget
    known: list[list[Array]] = field(default_factory=list)

    def counts(self, instruction: int) -> bool:
        """Whether another value of an instruction changes an output at some point."""
        module = self.whole.module
        changed = Program(_with_input(module, instruction))
        shapes = (*self.whole.parameters, read_shape(module.shapes[instruction]))
        for point in range(POINTS):
            drawn = arguments_at(point, shapes, self.whole.domains)
            if point == len(self.known):
                self.known.append(self.whole.run(drawn[:-1], self.budget, point + 1))
            after = changed.run(drawn, self.budget, point + 1)
            if not all(map(are_close, self.known[point], after)):
                return True
        return False


def _with_input(module: Module, instruction: int) -> Module:
    """The module with an instruction as one more input, behind the others."""
    opcodes, operands = list(module.opcodes), list(module.operands)
    opcodes[instruction], operands[instruction] = "parameter", ()
    entry = module.entry_computation
    computations = list(module.computations)
    computations[module.entry] = replace(entry, parameters=(*entry.parameters, instruction))
    return replace(
        module,
        opcodes=opcodes,
        operands=operands,
        payloads={**module.payloads, instruction: str(len(entry.parameters))},
        callees={i: called for i, called in module.callees.items() if i != instruction},
        computations=tuple(computations),
    )


def with_root_shape(edited: Module) -> Module:
    """An edited module with the shape of the tuple that it gives back, so that it can run."""
    if not edited.gives_tuple:
        return edited
    shapes = list(edited.shapes)
    root = edited.entry_computation.root
    shapes[root] = f"({', '.join(shapes[i] for i in edited.operands[root])})"
    return replace(edited, shapes=shapes)
