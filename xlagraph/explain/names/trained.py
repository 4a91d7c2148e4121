"""Weights that one side trains and the other leaves as they are, frozen or without a gradient."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from xlagraph.canon.labels import bare_shape
from xlagraph.cause.model import Evidence
from xlagraph.explain.names.merged import merged
from xlagraph.facts.training.updates import renewed
from xlagraph.message import A, B, Code, count, join, say
from xlagraph.rules.inputs.live_tensors import LIVE_TENSOR
from xlagraph.rules.training.optimizer_option import OPTIMIZER_OPTION
from xlagraph.rules.training.optimizer_state import NEWLY_UPDATED

if TYPE_CHECKING:
    from collections.abc import Sequence

    from xlagraph.cause.model import Cause
    from xlagraph.diff import Diff
    from xlagraph.message import Side

MAX_TOLD = 3
FIX = say(
    "Weights are frozen, or their gradients set to None, in some steps. Train the same weights in "
    "every step, and multiply the gradients of the others by a tensor on the device that is 0 or "
    "1; or expect one more graph where they are thawed for good."
)
SHORT_FIX = say("Train the same weights in each step: gradients times 0 or 1.")


def with_trained(diff: Diff, causes: Sequence[Cause]) -> list[Cause]:
    """The causes; as one what an optimizer does with weights on one side alone, and their state.

    A step of an optimizer that one side takes beside new state of the same sizes is no option.
    """
    step = next((c for c in causes if c.kind is OPTIMIZER_OPTION and c.proved), None)
    state = next((c for c in causes if c.kind is NEWLY_UPDATED and c.proved), None)
    if step is None or state is None:
        return list(causes)
    new_a, new_b = ({p: len(k) for p, k in renewed(m).items()} for m in (diff.a, diff.b))
    pairs = [(p, q) for p, q in enumerate(diff.match.to_b) if q >= 0]
    sides = (
        (A, diff.a, state.a, [p for p, q in pairs if new_a.get(p, 0) > new_b.get(q, 0)]),
        (B, diff.b, state.b, [q for p, q in pairs if new_b.get(q, 0) > new_a.get(p, 0)]),
    )
    for side, module, own, weights in sides:
        kept = {bare_shape(module, p) for p in own if module.opcodes[p] == "parameter"}
        if kept and kept == {bare_shape(module, p) for p in weights}:
            told = _told(side, weights, sorted(kept), state)
            outputs = [cause for cause in causes if _is_given_out(cause)]
            first = [told, *(cause for cause in causes if cause is not state)]
            return merged(first, told, [told, step, *outputs])
    return list(causes)


def _told(side: Side, weights: Sequence[int], shapes: Sequence[str], cause: Cause) -> Cause:
    """What is said of weights of these shapes that one side trains."""
    is_one = len(weights) == 1
    short = say(
        *(count(len(weights), "weight"), " (", join(map(Code, shapes), MAX_TOLD), ") "),
        *("is" if is_one else "are", " trained in ", side),
        *(" and left as ", "it is" if is_one else "they are", " in ", side.other),
    )
    evidence = (Evidence(short), *cause.evidence)
    return replace(cause, title=short, short=short, fix=FIX, short_fix=SHORT_FIX, evidence=evidence)


def _is_given_out(cause: Cause) -> bool:
    """Whether a cause says no more than that gradients and new values are given out as well."""
    return cause.kind is LIVE_TENSOR and cause.proved
