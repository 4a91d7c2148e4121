"""Causes that are a model's mode: one side trains, and ``eval()`` was called in the other."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from xlagraph.hlo.shapes import read_shape
from xlagraph.message import A, B, Side, say
from xlagraph.rules.inputs.live_tensors import LIVE_TENSOR
from xlagraph.rules.numbers.random_numbers import RANDOM_NUMBERS
from xlagraph.rules.pieces.early_execution import EARLY_EXECUTION

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from xlagraph.cause.model import Cause
    from xlagraph.diff import Diff
    from xlagraph.graph import Module

DROPOUT = "Dropout is on in "
"""How the words begin of masks that one side alone draws."""
_STATISTICS = frozenset({"batch-norm-training", "reduce"})


def with_mode(diff: Diff, causes: Sequence[Cause]) -> list[Cause]:
    """The causes, dropout of one side alone as its mode where running statistics move there alone.

    What the other side takes in ready-made, as a norm's statistics, is part of it.
    """
    main = next((cause for cause in causes if _is_dropout(cause)), None)
    if main is None:
        return list(causes)
    side = next(part for part in main.short.parts if isinstance(part, Side))
    moving = [cause for cause in causes if _moves_statistics(diff, side, cause)]
    if not moving:
        return list(causes)
    behind = [*moving, *(c for c in causes if c.kind is EARLY_EXECUTION and c.proved)]
    norms = "norms take the batch's statistics and keep them"
    words = (f"Dropout is on, and {norms}, in ", side, " only: eval() was called in ")
    first = replace(
        main,
        short=say(*words, side.other),
        evidence=(*main.evidence, *(one for cause in behind for one in cause.evidence)),
        a=main.a.union(*(cause.a for cause in behind)),
        b=main.b.union(*(cause.b for cause in behind)),
        share=min(1.0, main.share + sum(cause.share for cause in behind)),
    )
    return [first if cause is main else cause for cause in causes if cause not in behind]


def _is_dropout(cause: Cause) -> bool:
    is_named = str(next(iter(cause.short.parts), "")).startswith(DROPOUT)
    return cause.kind is RANDOM_NUMBERS and cause.proved and is_named


def _moves_statistics(diff: Diff, side: Side, cause: Cause) -> bool:
    """Whether a cause is of tensors that one side gives back more, all running statistics."""
    if cause.kind is not LIVE_TENSOR or not cause.proved:
        return False
    module, lone = {A: (diff.a, {*diff.removed}), B: (diff.b, {*diff.added})}[side]
    cited = {i for one in cause.evidence for i in (one.a if side is A else one.b)}
    given = cited & {*module.outputs}
    return bool(given) and all(_is_statistic(module, i, lone) for i in given)


def _is_statistic(module: Module, i: int, lone: Collection[int]) -> bool:
    """Whether a value is made, on one side alone, of an input of its sizes and of sums."""
    sizes = read_shape(module.shapes[i]).dimensions
    known, pending = {i}, [i]
    is_kept = has_sums = False
    while pending:
        for operand in module.operands[pending.pop()]:
            opcode = module.opcodes[operand]
            is_kept = is_kept or (
                opcode == "parameter" and read_shape(module.shapes[operand]).dimensions == sizes
            )
            has_sums = has_sums or opcode in _STATISTICS
            if operand in lone and operand not in known:
                known.add(operand)
                pending.append(operand)
    return is_kept and has_sums
