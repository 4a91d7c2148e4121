"""Causes that are a straight-through estimator, which one side has and the other has not."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from xlagraph.facts.program.arguments import is_jitted
from xlagraph.facts.values.straight_through import estimator
from xlagraph.message import Code, say
from xlagraph.rules.order.reordered_operands import REORDERED_OPERANDS
from xlagraph.rules.pieces.extra_subgraph import EXTRA_SUBGRAPH
from xlagraph.rules.pieces.other_operand import OTHER_OPERAND
from xlagraph.rules.pieces.replaced_subgraph import REPLACED_SUBGRAPH

if TYPE_CHECKING:
    from xlagraph.cause.model import Cause
    from xlagraph.diff import Diff

OWN = (EXTRA_SUBGRAPH, OTHER_OPERAND, REORDERED_OPERANDS, REPLACED_SUBGRAPH)
STRAIGHT = ": the values are the same, and gradients go straight to x there, into y itself in "


def with_estimator(diff: Diff, cause: Cause) -> Cause:
    """The cause as the estimator that one side alone has, if it is one."""
    found = estimator(diff, cause.a, cause.b) if cause.proved and cause.kind in OWN else None
    if found is None:
        return cause
    form = "x + jax.lax.stop_gradient(y - x)" if is_jitted(diff.a) else "x + (y - x).detach()"
    one, other = found.side, found.side.other
    first = say("A straight-through estimator, ", Code(form), ", is in ", one, " only")
    behind = ("; ", other, " takes x itself") if found.passes else (STRAIGHT, other)
    told = say(first, *behind)
    return replace(cause, short=told)

