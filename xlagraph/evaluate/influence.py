"""Whether a value within a module makes a difference to what the module gives back.

Where a bound or a branch hides what stands before it, two ways to compute that look alike.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import numpy as np

from xlagraph.errors import XlagraphError
from xlagraph.evaluate.agreement import are_close
from xlagraph.evaluate.budget import Budget
from xlagraph.evaluate.domains import LARGEST
from xlagraph.evaluate.draws import POINTS, arguments_at
from xlagraph.evaluate.numbers import literal
from xlagraph.evaluate.program import Program
from xlagraph.evaluate.step import is_float
from xlagraph.hlo.shapes import read_shape

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Sequence

    from xlagraph.evaluate.step import Array
    from xlagraph.graph import Module
    from xlagraph.hlo.shapes import Shape

MAX_NUMBERS = 32
"""Numbers that are asked one by one."""
HUGE, SMALL = 1e4, 0.7
"""What masks with a number masks with any that is as large; and a number that masks nothing."""


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


def lone_numbers_count(
    one: Program, other: Program, rows: int, given: Collection[float] = ()
) -> bool:
    """Whether each number that the first module's text alone has makes a difference there.

    An epsilon that is far below what it is added to, or a weight decay of little, may be hidden in
    the rounding of numbers: two modules look alike then whether they have it or not. False as well
    where they are many, or it cannot be told. `rows`: how many there are to pick (`Assumed`).
    """
    known = {np.float32(number) for number in (*_numbers(other).values(), *given)}
    lone: dict[float, list[int]] = {}
    for i, number in _numbers(one).items():
        if np.float32(number) not in known:
            lone.setdefault(number, []).append(i)
    if len(lone) > MAX_NUMBERS:
        return False
    asked = _Asked(one, Budget(), rows=rows)
    return all(asked.differs(_with_number(one.module, own, n)) for n, own in lone.items())


def _numbers(program: Program) -> dict[int, float]:
    """The fractions of a module's text that are a number each, by their places.

    Without 0, and what bounds nothing.
    """
    module = program.module
    own = (i for i, opcode in enumerate(module.opcodes) if opcode == "constant")
    shapes = {i: read_shape(module.shapes[i]) for i in own if program.needs(i)}
    found = {
        i: float(literal(shape, module.payloads.get(i, "")))
        for i, shape in shapes.items()
        if is_float(shape.element_type) and not shape.dimensions
    }
    return {i: number for i, number in found.items() if number and abs(number) < LARGEST}


def _with_number(module: Module, own: Sequence[int], number: float) -> Module:
    """The module with twice the number; 1 turns its sign, and what masks does so no more."""
    other = -number if abs(number) == 1 else 2 * number if abs(number) < HUGE else SMALL
    return replace(module, payloads={**module.payloads, **dict.fromkeys(own, repr(other))})


@dataclass(frozen=True, slots=True, eq=False)
class _Asked:
    """A module, with what it gives back at the points that were asked."""

    whole: Program
    budget: Budget
    known: list[list[Array]] = field(default_factory=list)
    rows: int = 0

    def differs(self, changed: Module, *more: Shape) -> bool:
        """Whether a module that takes the same, and more behind it, gives back something else."""
        other = Program(changed)
        shapes = (*self.whole.parameters, *more)
        for point in range(POINTS):
            drawn = arguments_at(point, shapes, self.whole.domains, self.rows)
            if point == len(self.known):
                own = drawn[: len(self.whole.parameters)]
                self.known.append(self.whole.run(own, self.budget, point + 1))
            after = other.run(drawn, self.budget, point + 1)
            if not all(map(are_close, self.known[point], after)):
                return True
        return False

    def counts(self, instruction: int) -> bool:
        """Whether another value of an instruction changes an output at some point."""
        module = self.whole.module
        shape = read_shape(module.shapes[instruction])
        return self.differs(_with_input(module, instruction), shape)


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
