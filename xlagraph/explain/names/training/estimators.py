"""Causes that are a straight-through estimator, which one side has and the other has not."""

from __future__ import annotations

from typing import TYPE_CHECKING

from xlagraph.explain.names.layers import forward_pass
from xlagraph.explain.names.merged import merged
from xlagraph.facts.pieces.straight_through import estimator
from xlagraph.facts.program.arguments import is_jitted
from xlagraph.message import Code, say
from xlagraph.rules.order.reordered_operands import REORDERED_OPERANDS
from xlagraph.rules.pieces.extra_subgraph import EXTRA_SUBGRAPH
from xlagraph.rules.pieces.other_operand import OTHER_OPERAND
from xlagraph.rules.pieces.replaced_subgraph import REPLACED_SUBGRAPH

if TYPE_CHECKING:
    from collections.abc import Sequence

    from xlagraph.cause.model import Cause
    from xlagraph.diff import Diff
    from xlagraph.message import Message

OWN = (EXTRA_SUBGRAPH, OTHER_OPERAND, REORDERED_OPERANDS, REPLACED_SUBGRAPH)
ESTIMATOR = "A straight-through estimator, "
STRAIGHT = ": the values are the same, and gradients go straight to x there, into y itself in "


def with_estimator(diff: Diff, causes: Sequence[Cause]) -> list[Cause]:
    """The causes, that of an estimator of one side alone as such, with gradients that follow.

    Where the backward pass only takes other values, nothing else is edited there.
    """
    found = ((cause, _of(diff, cause)) for cause in causes)
    main, told = next(((cause, one) for cause, one in found if one), (None, None))
    if main is None or told is None:
        return list(causes)
    forward = forward_pass(diff.a), forward_pass(diff.b)
    behind = [cause for cause in causes if cause is not main and _is_rewired(diff, cause, *forward)]
    kept = merged(causes, main, [main, *behind], short=told)
    return sorted(kept, key=lambda cause: -cause.share) if behind else kept


def is_estimator(cause: Cause) -> bool:
    """Whether a cause is told as a straight-through estimator."""
    return next(iter(cause.short.parts), None) == ESTIMATOR


def _of(diff: Diff, cause: Cause) -> Message | None:
    """What is said of a cause that is such an estimator."""
    found = estimator(diff, cause.a, cause.b) if cause.proved and cause.kind in OWN else None
    if found is None:
        return None
    form = "x + jax.lax.stop_gradient(y - x)" if is_jitted(diff.a) else "x + (y - x).detach()"
    one, other = found.side, found.side.other
    first = say(ESTIMATOR, Code(form), ", is in ", one, " only")
    behind = ("; ", other, " takes x itself") if found.passes else (STRAIGHT, other)
    return say(first, *behind)


def _is_rewired(diff: Diff, cause: Cause, forward_a: set[int], forward_b: set[int]) -> bool:
    """Whether a cause is of operations behind the loss, which both have, with other values."""
    if cause.kind not in OWN or not (cause.proved and forward_a and forward_b):
        return False
    is_alone = cause.a.intersection(diff.removed) or cause.b.intersection(diff.added)
    return not is_alone and forward_a.isdisjoint(cause.a) and forward_b.isdisjoint(cause.b)
