"""Gradients that both sides clip, one of them before they are added up and the other behind it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from xlagraph.explain.names.merged import merged
from xlagraph.message import A, B, say
from xlagraph.rules.training.clipping import CLIPPING

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from xlagraph.cause.model import Cause
    from xlagraph.diff import Diff
    from xlagraph.graph import Module

FIX = say(
    "Clip once, where the gradients of all micro-batches are added up and averaged: what is "
    "clipped before that is clipped by the norm of each part."
)
SHORT_FIX = say("Clip at one place: once, behind the sum of all micro-batches.")


def with_clipped(diff: Diff, causes: Sequence[Cause]) -> list[Cause]:
    """The causes; as one two of clipping, each of which says that one side alone clips."""
    clips = [cause for cause in causes if cause.kind is CLIPPING]
    own = [
        (cause.a.intersection(diff.removed), cause.b.intersection(diff.added)) for cause in clips
    ]
    only_a = next((c for c, (a, b) in zip(clips, own, strict=True) if a and not b), None)
    only_b = next((c for c, (a, b) in zip(clips, own, strict=True) if b and not a), None)
    if only_a is None or only_b is None:
        return list(causes)
    inside = _is_inside(diff.a, only_a.a), _is_inside(diff.b, only_b.b)
    main = next(cause for cause in causes if cause in (only_a, only_b))
    short = say("gradients are clipped by their norm at another place")
    if inside[0] != inside[1]:
        one, other = (A, B) if inside[0] else (B, A)
        short = say(
            *("gradients are clipped in each turn of a loop in ", one),
            *(", and once, behind it, in ", other),
        )
    return merged(
        causes, main, [only_a, only_b], title=short, short=short, fix=FIX, short_fix=SHORT_FIX
    )


def _is_inside(module: Module, own: Collection[int]) -> bool:
    """Whether most of these instructions stand in what the entry calls, as in a loop's body."""
    entry = module.entry_computation
    within = sum(entry.start <= i < entry.stop for i in own)
    return 2 * within < len(own)
