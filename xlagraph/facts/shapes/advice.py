"""What to do about inputs that have another shape: data, or tensors of the model."""

from __future__ import annotations

from typing import TYPE_CHECKING

from xlagraph.cause.editor import is_input
from xlagraph.cause.finding import Words
from xlagraph.cause.names import short_shape
from xlagraph.diff.header import given_away
from xlagraph.facts.shapes.padded import padded_fix
from xlagraph.facts.shapes.sizes import are_whole_numbers
from xlagraph.facts.training.gradients import is_multiplied
from xlagraph.facts.training.updates import renewed
from xlagraph.hlo.shapes import read_shape
from xlagraph.message import EMPTY, Change, join, say

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from xlagraph.cause.case import Case
    from xlagraph.diff import Diff

DATA_FIX = (
    "Pad or drop the odd batch (drop_last=True), or bucket the sizes, so that every step sees the "
    "same shapes; where values decide about a size (masked_select, nonzero), use a mask."
)
WEIGHT_FIX = "Build the model, and its optimizer's state, with the same sizes for every step."
SIZED = "Weights have another shape"
SIZED_FIX = say("Build the model in one size; old checkpoints do not fit another.")
MAX_SHAPES = 2
"""Changes of shape that are told."""
RESHAPED_FIX = say("Keep one form of each weight; a change costs one compile.")


def words_of_inputs(
    case: Case, starts: Mapping[int, int], dimensions: Collection[tuple[int, int, int]]
) -> Words:
    """The advice on inputs, A's with B's, as far as it is known what they are.

    `dimensions`: axis, old and new size of what changed.
    """
    a = case.diff.a
    if _are_reshaped_weights(case.diff, starts):
        return Words(say(WEIGHT_FIX), EMPTY, RESHAPED_FIX)
    if _are_weights(case.diff, starts):
        shapes = dict.fromkeys(
            (short_shape(a, x), short_shape(case.diff.b, y)) for x, y in starts.items()
        )
        told = (Change(old, new, became="became") for old, new in shapes)
        short = say(SIZED, ": ", join(told, MAX_SHAPES))
        return Words(say(WEIGHT_FIX), short, SIZED_FIX)
    known = given_away(a) | set(case.a.context.parameters)
    fix = DATA_FIX if known or are_whole_numbers(a, starts) else ""
    if known & {int(a.payloads[x]) for x in starts if is_input(a, x)}:
        fix = WEIGHT_FIX
    return Words(say(fix), EMPTY, padded_fix(dimensions))


def _are_reshaped_weights(diff: Diff, starts: Mapping[int, int]) -> bool:
    """Whether all are updated, and have more axes in one version, as a scale of each channel."""
    shapes = ((diff.a.shapes[x], diff.b.shapes[y]) for x, y in starts.items())
    have_other_axes = all(_axes(one) != _axes(other) for one, other in shapes)
    return have_other_axes and renewed(diff.a).keys() >= starts.keys()


def _are_weights(diff: Diff, starts: Mapping[int, int]) -> bool:
    """Whether both sides renew all of them, and multiply with one: weights, with their state."""
    is_renewed = renewed(diff.a).keys() >= starts.keys()
    is_state = is_renewed and renewed(diff.b).keys() >= {*starts.values()}
    return is_state and any(is_multiplied(diff.a, x) for x in starts)


def _axes(shape: str) -> int:
    return len(read_shape(shape).dimensions)
