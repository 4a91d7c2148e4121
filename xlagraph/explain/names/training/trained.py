"""Tensors that one side renews and the other leaves as they are: weights, running statistics."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import TYPE_CHECKING

from xlagraph.canon.labels import bare_shape
from xlagraph.cause.editor import is_input
from xlagraph.cause.model import Evidence
from xlagraph.cause.verdict import NOWHERE
from xlagraph.explain.names.merged import BRANCHES, merged
from xlagraph.facts.training.gradients import PRODUCTS
from xlagraph.facts.training.updates import renewed
from xlagraph.message import A, B, Code, count, join, say
from xlagraph.rules.inputs.live_tensors import LIVE_TENSOR
from xlagraph.rules.training.optimizer_option import OPTIMIZER_OPTION
from xlagraph.rules.training.optimizer_state import NEWLY_UPDATED, OPTIMIZER_STATE

if TYPE_CHECKING:
    from collections.abc import Sequence

    from xlagraph.cause.model import Cause
    from xlagraph.diff import Diff
    from xlagraph.graph import Module
    from xlagraph.message import Side

MAX_TOLD = 3
FIX = say(
    "Weights are frozen, or their gradients set to None, in some steps. Train the same weights in "
    "every step, and multiply the gradients of the others by a tensor on the device that is 0 or "
    "1; or expect one more graph where they are thawed for good."
)
STATISTICS_FIX = say(
    "Observers, or running statistics, are frozen from some step on (a flag, eval()). Renew them "
    "in every step, by a rate that is a tensor and 0 where nothing is to change: ",
    Code("low.lerp_(x.min(), rate)"),
    "; or accept one compile where they are frozen for good.",
)
STATISTICS_SHORT_FIX = say(
    "Renew them in each step, by a rate that may be 0; or accept one compile."
)
MORE_FIX = say(
    "Cut gradients alike in both versions (no_grad(), .detach(), requires_grad_()), and hand the "
    "optimizer the same weights."
)
MORE_SHORT_FIX = say("Cut gradients alike in both, and train the same weights.")
SHORT_FIX = say("None if thawed for good; else multiply gradients by 0 or 1.")


def with_trained(diff: Diff, causes: Sequence[Cause]) -> list[Cause]:
    """The causes; as one what an optimizer does with weights on one side alone, and their state.

    A step of an optimizer that one side takes beside new state of the same sizes is no option.
    """
    step = next((c for c in causes if c.kind is OPTIMIZER_OPTION and c.proved), None)
    state = next((c for c in causes if c.kind is NEWLY_UPDATED and c.proved), None)
    if step is None or state is None:
        return _with_more_trained(diff, causes, step)
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


def _with_more_trained(diff: Diff, causes: Sequence[Cause], step: Cause | None) -> list[Cause]:
    """The causes; as one an optimizer's step, and its state, for weights that both sides renew.

    As a target that is averaged on both sides, and that gradients reach on one.
    """
    state = next((c for c in causes if c.kind is OPTIMIZER_STATE and c.proved), None)
    if state is None:
        return list(causes)
    if step is None:
        return _with_thawed(diff, causes, [state])
    sides = (
        (A, diff.a, state.a & {*diff.removed}, step.a & {*diff.removed}),
        (B, diff.b, state.b & {*diff.added}, step.b & {*diff.added}),
    )
    for side, module, own, steps in sides:
        inputs = [p for p in sorted(own) if module.opcodes[p] == "parameter"]
        has_products = any(module.opcodes[i] in PRODUCTS for i in steps)
        if not inputs or not has_products:
            continue
        shapes = dict.fromkeys(bare_shape(module, p) for p in inputs)
        short = say(
            *(count(len(inputs), "weight"), " (", join(map(Code, shapes), MAX_TOLD), ") "),
            *("is" if len(inputs) == 1 else "are", " trained by the optimizer in ", side),
            *(" alone: gradients reach ", "it" if len(inputs) == 1 else "them", " there, which "),
            *(side.other, " cuts, as by no_grad() or .detach()"),
        )
        told = replace(step, title=short, short=short, fix=MORE_FIX, short_fix=MORE_SHORT_FIX)
        told = replace(told, evidence=(Evidence(short), *step.evidence))
        outputs = [cause for cause in causes if _is_given_out(cause)]
        first = [told if cause is step else cause for cause in causes]
        return merged(first, told, [told, state, *outputs])
    return _with_thawed(diff, causes, [state, step])


def _with_thawed(diff: Diff, causes: Sequence[Cause], parts: Sequence[Cause]) -> list[Cause]:
    """The causes; state of weights that the other side takes in and does not renew is theirs.

    `parts`: the cause of state, and what an optimizer does with it.
    """
    state = parts[0]
    sides = (
        (A, diff.a, diff.b, state.a, diff.match.to_b),
        (B, diff.b, diff.a, state.b, diff.match.to_a),
    )
    for side, module, other, own, partners in sides:
        inputs = (bare_shape(module, p) for p in own if is_input(module, p))
        kept = Counter(shape for shape in inputs if not shape.endswith("[]"))
        new, theirs = renewed(module), renewed(other)
        pairs = ((p, partners[p]) for p in new if partners[p] >= 0)
        thawed = [p for p, other_p in pairs if len(new[p]) > len(theirs.get(other_p, ()))]
        weights = [p for p in sorted(thawed) if bare_shape(module, p) in kept]
        shapes = Counter(bare_shape(module, p) for p in weights)
        if (
            weights
            and shapes.keys() == kept.keys()
            and all(kept[k] % n == 0 for k, n in shapes.items())
        ):
            told = _told(side, weights, sorted(kept), state)
            told = replace(told, kind=NEWLY_UPDATED, expected=False, place=NOWHERE)
            outputs = [cause for cause in causes if _is_given_out(cause)]
            first = [told, *(cause for cause in causes if cause is not state)]
            return merged(first, told, [told, *parts[1:], *outputs])
    return list(causes)


def with_statistics(diff: Diff, causes: Sequence[Cause]) -> list[Cause]:
    """The causes; as one what one side alone computes to renew tensors that both sides use.

    Such as the ranges of observers, or a BatchNorm's averages: what is renewed is used in the same
    step, and where it is frozen the tensor is used as it is.
    """
    piece = next((c for c in causes if c.kind in BRANCHES and c.proved), None)
    given = [cause for cause in causes if _is_given_out(cause)]
    if piece is None or not given:
        return list(causes)
    new_a, new_b = renewed(diff.a), renewed(diff.b)
    pairs = [(p, q) for p, q in enumerate(diff.match.to_b) if q >= 0]
    sides = (
        (A, diff.a, piece.a, {p: new_a[p] for p, q in pairs if p in new_a and q not in new_b}),
        (B, diff.b, piece.b, {q: new_b[q] for p, q in pairs if q in new_b and p not in new_a}),
    )
    frozen = [one for one in sides if one[3]]
    if len(frozen) != 1:
        return list(causes)
    ((side, module, own, places),) = frozen
    values = {module.outputs[k] for some in places.values() for k in some}
    if not values <= own or not all(_is_used(module, value) for value in values):
        return list(causes)
    told = _renewed(side, module, sorted(places), piece)
    return merged([told, *(c for c in causes if c is not piece)], told, [told, *given])


def _is_used(module: Module, value: int) -> bool:
    """Whether a value is more than given out."""
    return any(user != module.entry_computation.root for user in module.users[value])


def _renewed(side: Side, module: Module, tensors: Sequence[int], cause: Cause) -> Cause:
    """What is said of tensors that one side renews before it uses them."""
    shapes = dict.fromkeys(Code(bare_shape(module, p)) for p in tensors)
    is_one = len(tensors) == 1
    short = say(
        *(count(len(tensors), "tensor"), " (", join(shapes, MAX_TOLD), ") "),
        *("is" if is_one else "are", " renewed before ", "it is" if is_one else "they are"),
        *(" used in ", side, ", as running statistics are, and used as "),
        *("it is" if is_one else "they are", " in ", side.other),
    )
    evidence = (Evidence(short), *cause.evidence)
    told = replace(cause, title=short, short=short, evidence=evidence)
    return replace(told, fix=STATISTICS_FIX, short_fix=STATISTICS_SHORT_FIX)


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
