"""Gradients that one module clips by the norm of all of them, and the other each by value.

Both stand before every update, so whatever else differs spreads into what they are made of: they
are asked for by what they compute, and taken out on each side.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from xlagraph.cause.rule import Rule
from xlagraph.facts.pieces.clips import (
    ClippedSide,
    all_sizes,
    by_norm,
    by_value,
    clipped_otherwise,
)
from xlagraph.message import say
from xlagraph.rules.training.clipping import CLIPPING

if TYPE_CHECKING:
    from collections.abc import Callable

    from xlagraph.cause.case import Case, SideView
    from xlagraph.cause.finding import Finding
    from xlagraph.facts.pieces.clips import Clipped
    from xlagraph.graph import Module
    from xlagraph.message import Message

FIX = say(
    "Clip in one way in both: clip_grad_norm_ (optax.clip_by_global_norm) keeps the direction of "
    "the gradient, clip_grad_value_ (optax.clip) cuts each number off."
)
SHORT_FIX = say("Clip by norm, or by value, in both.")


def find(case: Case) -> list[Finding]:
    """Tensors that are clipped by norm in one module and by value in the other, as many."""
    for one, other in case.both_ways:
        scaled = _own(one, other, by_norm)
        cut = _own(other, one, by_value) if scaled else {}
        if scaled and all_sizes(one.module, scaled) == all_sizes(other.module, cut):
            sides = ClippedSide(one, scaled, scaled), ClippedSide(other, cut, cut)
            return [clipped_otherwise(CLIPPING, *sides, _text(one, other), (FIX, SHORT_FIX))]
    return []


def _own(view: SideView, other: SideView, clipped: Callable[[Module], Clipped]) -> Clipped:
    """What one side clips that the other does not clip alike."""
    own, theirs = clipped(view.module), clipped(other.module)
    return {i: value for i, value in own.items() if view.partners[i] not in theirs}


def _text(norm: SideView, value: SideView) -> Message:
    return say("gradients are clipped by their norm in ", norm.side, ", by value in ", value.side)


RULE = Rule(
    name="other-clipping",
    kinds=(),
    find=find,
    after=("nesterov",),
    before=("optimizer-state",),
    rematches=True,
)
