"""Batch norms of which one side takes the running statistics (eval), the other the batch's (train).

XLA has an operation for the statistics of a batch. Running ones are inputs: a variance of one
dimension is taken the root of, with a number added, before anything renews it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from xlagraph.cause.editor import is_input
from xlagraph.facts.values.scalars import SPREADS, is_number, through
from xlagraph.message import A, B, count, say

if TYPE_CHECKING:
    from xlagraph.diff import Diff
    from xlagraph.graph import Module
    from xlagraph.message import Message

TRAINING = "batch-norm-training"
INFERENCE = "batch-norm-inference"
ROOTS = frozenset({"rsqrt", "sqrt"})
VARIANCE = 4
"""Its place among the operands of an inference."""


def frozen_norms(diff: Diff) -> Message:
    """How many norms are of one kind in A and of the other in B; empty where none are."""
    batch = _of_batch(diff.a), _of_batch(diff.b)
    running = _of_running(diff.a), _of_running(diff.b)
    number = abs(batch[0] - batch[1])
    if not number or batch[0] - batch[1] != running[1] - running[0]:
        return say()
    train, evaluate = (A, B) if batch[0] > batch[1] else (B, A)
    return say(
        count(number, "batch norm"),
        f" {'takes' if number == 1 else 'take'} running statistics (eval) in ",
        evaluate,
        ", the batch's (train) in ",
        train,
    )


def _of_batch(module: Module) -> int:
    return sum(1 for opcode in module.opcodes if opcode == TRAINING)


def _of_running(module: Module) -> int:
    """How many variances that come in are taken the root of, or are an inference's."""
    found: set[int] = set()
    for i, opcode in enumerate(module.opcodes):
        operands = module.operands[i]
        if opcode in ROOTS:
            found |= _varied(module, through(module, operands[0], SPREADS))
        elif opcode == INFERENCE:
            found.add(operands[VARIANCE])
    inputs = {through(module, i, SPREADS) for i in found}
    return sum(1 for i in inputs if is_input(module, i) and _has_one_dimension(module, i))


def _varied(module: Module, value: int) -> set[int]:
    """What a sum adds a number to; empty for anything else."""
    terms = module.operands[value] if module.opcodes[value] == "add" else ()
    values = {term for term in terms if not is_number(module, term)}
    return values if len(values) < len(terms) else set()


def _has_one_dimension(module: Module, i: int) -> bool:
    sizes = module.shapes[i].partition("{")[0].partition("[")[2].rstrip("]")
    return bool(sizes) and "," not in sizes
