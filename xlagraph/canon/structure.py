"""Numbers for whole expressions: equal number, equal expression (hash-consing).

The number of an instruction stands for its label and the numbers of its operands, so one
comparison of numbers compares all that lies below. Linear in the number of operands.
(Value numbering: Ershov 1958; hash-consing of DAGs: Filliâtre and Conchon 2006.)
"""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING

from xlagraph.canon.live import DRAWS, roots

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from xlagraph.canon.labels import Interner
    from xlagraph.graph import Module


def call_order(module: Module) -> list[int]:
    """Computation numbers, callees before callers, by a walk from the entry; the rest behind.

    The order in which the module lists its computations plays no part.
    """
    calls: dict[int, list[int]] = {}
    for i, callees in module.callees.items():
        calls.setdefault(module.computation_of(i).index, []).extend(callees)
    done: set[int] = set()
    order: list[int] = []
    for start in (module.entry, *range(len(module.computations))):
        stack = [(start, False)]
        while stack:
            number, expanded = stack.pop()
            if expanded:
                if number not in done:
                    done.add(number)
                    order.append(number)
            elif number not in done:
                stack.append((number, True))
                stack.extend((callee, False) for callee in calls.get(number, ()))
    return order


def number_computations(module: Module, labels: Sequence[int], interner: Interner) -> list[int]:
    """The number of each computation: of its root's expression, its effects and its parameters."""
    numbers = [-1] * len(module.computations)
    for c in call_order(module):
        if c == module.entry:
            continue
        computation = module.computations[c]
        expressions = defaultdict[int, int](_nowhere)
        for i in range(computation.start, computation.stop):
            expressions[i] = expression_number(module, i, labels[i], expressions, numbers, interner)
        starts = [expressions[i] for i in (*roots(module, computation), *computation.parameters)]
        numbers[c] = interner.number(("computation", computation.execution_thread, *starts))
    return numbers


def _nowhere() -> int:
    """What an operand counts as that an edited module takes from another computation."""
    return -1


def number_expressions(
    module: Module,
    labels: Sequence[int],
    live: bytearray,
    computations: Sequence[int],
    interner: Interner,
) -> list[int]:
    """The number of each live instruction of the entry computation; -1 for all others."""
    expressions = [-1] * len(module)
    number_of, known = expressions.__getitem__, interner.setdefault
    linked = module.callees.keys() | module.controls.keys()
    entry = module.entry_computation
    span = slice(entry.start, entry.stop)
    rows = zip(labels[span], module.operands[span], live[span], strict=True)
    for i, (label, below, alive) in enumerate(rows, entry.start):
        if not alive:
            continue
        if i in linked:
            expressions[i] = expression_number(
                module, i, label, expressions, computations, interner
            )
        else:
            expressions[i] = known((label, *map(number_of, below)), len(interner))
    return expressions


def expression_number(
    module: Module,
    i: int,
    label: int,
    expressions: Mapping[int, int] | Sequence[int],
    computations: Sequence[int],
    interner: Interner,
) -> int:
    """The number of instruction `i`, its operands' numbers being known."""
    key: tuple[object, ...] = (label, *[expressions[o] for o in module.operands[i]])
    if i in module.callees:
        key = (*key, "calls", *[computations[c] for c in module.callees[i]])
    if i in module.controls:
        key = (*key, "after", *sorted(expressions[o] for o in module.controls[i]))
    return interner.number(key)


def closed_instructions(module: Module) -> bytearray:
    """One byte an instruction: 1 where it depends on constants alone."""
    closed = bytearray(len(module))
    is_closed = closed.__getitem__
    for i, (opcode, operands) in enumerate(zip(module.opcodes, module.operands, strict=True)):
        if not operands:
            closed[i] = opcode in ("constant", "iota")
        elif is_closed(operands[0]) and all(map(is_closed, operands)):
            closed[i] = i not in module.callees and opcode not in DRAWS
    return closed
