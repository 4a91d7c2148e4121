"""Causes that are a carried state, which one side begins from a weight and the other takes in."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from xlagraph.canon.labels import bare_shape
from xlagraph.cause.model import Evidence
from xlagraph.cause.names import short_shape
from xlagraph.cause.sources import where
from xlagraph.explain.names.merged import merged
from xlagraph.facts.training.updates import renewed
from xlagraph.message import A, B, HloName, say
from xlagraph.rules.inputs.live_tensors import LIVE_TENSOR
from xlagraph.rules.shapes.sizes import INPUT_SHAPE
from xlagraph.rules.training.optimizer_state import NEWLY_UPDATED, OPTIMIZER_STATE

if TYPE_CHECKING:
    from collections.abc import Sequence

    from xlagraph.cause.model import Cause
    from xlagraph.cause.verdict import Place
    from xlagraph.diff import Diff
    from xlagraph.graph import Module
    from xlagraph.message import Side

STATES = (NEWLY_UPDATED, OPTIMIZER_STATE)
"""What the update of a weight is told as that one side alone trains."""
FIX = say(
    "Take in both in every step, and let the device pick: torch.where(is_first, start, state). The "
    "weight gets a gradient then in every step, of zeros where it is not picked."
)
SHORT_FIX = say("Carry the state always: torch.where(is_first, start, state).")


def with_start(diff: Diff, causes: Sequence[Cause]) -> list[Cause]:
    """The causes; as one a state's first value that is a weight, and that weight's own state.

    The optimizer keeps state for it on that side alone because it is trained on that side alone.
    """
    ready = next((c for c in causes if c.kind is INPUT_SHAPE and c.proved), None)
    kept = next((c for c in causes if c.kind in STATES and c.proved), None)
    if ready is None or kept is None:
        return list(causes)
    sides = (
        (A, diff.a, ready.a.intersection(diff.removed), ready.b.intersection(diff.added), diff.b),
        (B, diff.b, ready.b.intersection(diff.added), ready.a.intersection(diff.removed), diff.a),
    )
    for side, module, own, others, other in sides:
        start = _start(module, own, kept.a if side is A else kept.b)
        state = next((p for p in sorted(others) if other.opcodes[p] == "parameter"), None)
        if start is not None and state is not None:
            told = _told(side, module, start, short_shape(other, state), ready, kept.place)
            parts = [kept, *(cause for cause in causes if cause.kind is LIVE_TENSOR)]
            rest = [told if cause is ready else cause for cause in causes]
            return merged(rest, told, [told, *parts])
    return list(causes)


def _start(module: Module, own: set[int] | frozenset[int], kept: frozenset[int]) -> int | None:
    """The weight of one side alone that a piece takes in, and the optimizer has state for."""
    new = renewed(module)
    weights = [p for p in sorted(own) if p in new]
    states = {bare_shape(module, p) for p in kept if p in new and p not in own}
    return next((p for p in weights if bare_shape(module, p) in states), None)


def _told(side: Side, module: Module, start: int, state: str, cause: Cause, place: Place) -> Cause:
    """What is said of a state that starts from a weight."""
    weight = HloName(module.names[start], module.opcodes[start])
    first = say("a carried state starts from a weight in ", side, ", which is trained there alone")
    short = say(first, "; in ", side.other, " it comes in as it was left")
    title = say(short, ": ", weight, f" {short_shape(module, start)}, ", state)
    cited = (Evidence(title, sources=where(module, module.users[start])), *cause.evidence)
    return replace(
        cause, title=title, short=short, fix=FIX, short_fix=SHORT_FIX, evidence=cited, place=place
    )
