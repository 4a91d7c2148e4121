"""Causes that are a model's mode: one side trains, and ``eval()`` was called in the other."""

from __future__ import annotations

from typing import TYPE_CHECKING

from xlagraph.explain.along import kept_alone
from xlagraph.explain.names.merged import BRANCHES, merged
from xlagraph.facts.values.frozen_norms import frozen_norms
from xlagraph.hlo.shapes import read_shape
from xlagraph.message import A, Side, say
from xlagraph.rules.numbers.random_numbers import RANDOM_NUMBERS
from xlagraph.rules.pieces.early_execution import EARLY_EXECUTION

if TYPE_CHECKING:
    from collections.abc import Sequence

    from xlagraph.cause.model import Cause
    from xlagraph.diff import Diff
    from xlagraph.explain.along import Kept
    from xlagraph.graph import Module
    from xlagraph.message import Message

DROPOUT = "Dropout is on in "
"""How the words begin of masks that one side alone draws."""
FIX = say(
    "Norms in training mode take the statistics of each batch and move their running ones; in eval "
    "mode they take the running ones and leave them. A train() on a module puts all modules in it "
    "into training mode again, also those that were frozen by eval(): set their mode after each "
    "train(), or in a train() of the model's own."
)
SHORT_FIX = say("Freeze them in every step or in none; train() ends what eval() froze.")
_STATISTICS = frozenset({"batch-norm-training", "reduce"})


def with_mode(diff: Diff, causes: Sequence[Cause]) -> list[Cause]:
    """The causes, dropout or norms of one side alone as its mode where statistics move there alone.

    What the other side takes in ready-made, as a norm's statistics, is part of it.
    """
    main = next((cause for cause in causes if _is_dropout(cause)), None)
    if main is None:
        return _with_norms(diff, causes)
    side = next(part for part in main.short.parts if isinstance(part, Side))
    moving = [cause for cause in causes if _moves_statistics(diff, side, cause)]
    moving = moving or _norms_beside(diff, side, causes)
    if not moving:
        return list(causes)
    behind = [*moving, *(c for c in causes if c.kind is EARLY_EXECUTION and c.proved)]
    norms = "norms take the batch's statistics and keep them"
    words = (f"Dropout is on, and {norms}, in ", side, " only: eval() was called in ", side.other)
    return merged(causes, main, [main, *behind], short=say(*words))


def _norms_beside(diff: Diff, side: Side, causes: Sequence[Cause]) -> list[Cause]:
    """The cause of norms that take the batch's statistics on one side, with what they count."""
    told = frozen_norms(diff)
    norms = [c for c in causes if told and c.kind in BRANCHES and c.proved and _says(c, told)]
    sides = [part for part in told.parts if isinstance(part, Side)] if norms else []
    if sides[-1:] != [side]:
        return []
    return [*norms[:1], *(one for one in causes if _counts_batches(diff, side, one))]


def _with_norms(diff: Diff, causes: Sequence[Cause]) -> list[Cause]:
    """The causes, norms that take the batch's statistics together with those that they keep."""
    told = frozen_norms(diff)
    norms = (c for c in causes if c.kind in BRANCHES and c.proved and _says(c, told))
    main = next(norms, None) if told else None
    if main is None:
        return list(causes)
    *_, side = (part for part in told.parts if isinstance(part, Side))
    moving = [cause for cause in causes if _moves_statistics(diff, side, cause)]
    counts = [one for one in causes if one not in moving and _counts_batches(diff, side, one)]
    if not moving:
        return merged(causes, main, [main, *counts]) if counts else list(causes)
    words = (told, " only, which keeps them: frozen in ", side.other, ", as by eval()")
    parts = [main, *moving, *counts]
    return merged(causes, main, parts, short=say(*words), fix=FIX, short_fix=SHORT_FIX)


def _says(cause: Cause, words: Message) -> bool:
    return str(words).lower() in str(cause.in_short).lower()


def _is_dropout(cause: Cause) -> bool:
    is_named = str(next(iter(cause.short.parts), "")).startswith(DROPOUT)
    return cause.kind is RANDOM_NUMBERS and cause.proved and is_named


def _moves_statistics(diff: Diff, side: Side, cause: Cause) -> bool:
    """Whether a cause is of tensors that one side gives back more, all running statistics.

    And the numbers of batches that they were taken of.
    """
    module = diff.a if side is A else diff.b
    given = _given(diff, side, cause)
    others = [one for one in given if not _is_statistic(module, one)]
    return len(others) < len(given) and all(_is_counter(module, one) for one in others)


def _counts_batches(diff: Diff, side: Side, cause: Cause) -> bool:
    """Whether a cause is of counters alone that one side gives back more."""
    module = diff.a if side is A else diff.b
    given = _given(diff, side, cause)
    return bool(given) and all(_is_counter(module, one) for one in given)


def _given(diff: Diff, side: Side, cause: Cause) -> list[Kept]:
    """What one side gives back more by a cause."""
    return [one for one in kept_alone(diff, cause) if one.side is side]


def _is_counter(module: Module, kept: Kept) -> bool:
    """Whether a value is a whole number that comes in, and more by another."""
    i = kept.value
    opcodes = {module.opcodes[o] for o in module.operands[i]}
    is_whole = module.shapes[i].startswith("s64[]")
    return is_whole and module.opcodes[i] == "add" and "parameter" in opcodes


def _is_statistic(module: Module, kept: Kept) -> bool:
    """Whether a value is made, on one side alone, of an input of its sizes and of sums."""
    sizes = read_shape(module.shapes[kept.value]).dimensions
    taken = {o for i in kept.made_alone for o in module.operands[i]}
    inputs = (o for o in taken if module.opcodes[o] == "parameter")
    is_renewed = any(read_shape(module.shapes[o]).dimensions == sizes for o in inputs)
    return is_renewed and any(module.opcodes[o] in _STATISTICS for o in taken)
