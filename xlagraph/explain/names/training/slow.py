"""Slow weights that follow the weights and take their place, in some steps or on one side only."""

from __future__ import annotations

from typing import TYPE_CHECKING

from xlagraph.canon.labels import bare_shape
from xlagraph.explain.names.merged import merged
from xlagraph.facts.training.updates import formula, updates
from xlagraph.message import A, B, Code, count, join, say
from xlagraph.rules.inputs.initial_state import INITIAL_STATE
from xlagraph.rules.inputs.live_tensors import LIVE_TENSOR
from xlagraph.rules.training.optimizer_state import NEWLY_UPDATED, OPTIMIZER_STATE

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from xlagraph.cause.model import Cause
    from xlagraph.diff import Diff
    from xlagraph.graph import Module

OF_STATE = (INITIAL_STATE, LIVE_TENSOR, NEWLY_UPDATED, OPTIMIZER_STATE)
FEWEST = 2
"""So many tensors at least are the weights of something."""
MAX_TOLD = 3
FIX = say(
    "Every so many steps slow weights move towards the weights, and are copied into them "
    "(Lookahead): the step that does it has a graph of its own, which compiles once. To have one "
    "graph, do it behind torch_xla.sync(), in a step of its own, or in every step, by a rate and a "
    "choice (torch.where) that are tensors on the device."
)
SHORT_FIX = say("Accept one graph more, or do it behind torch_xla.sync().")


def with_slow(diff: Diff, causes: Sequence[Cause]) -> list[Cause]:
    """The causes; as one those of tensors that one side has, moves and gives out as new weights.

    Zhang et al., Lookahead Optimizer (2019): ``slow += (fast - slow) * alpha; fast = slow``.
    """
    parts = [cause for cause in causes if cause.proved and cause.kind in OF_STATE]
    for side, module, lone in ((A, diff.a, diff.removed), (B, diff.b, diff.added)):
        slow = _slow(module, lone)
        if not parts or len(slow) < FEWEST:
            continue
        shapes = dict.fromkeys(Code(bare_shape(module, p)) for p in slow)
        short = say(
            *(count(len(slow), "slow weight"), " (", join(shapes, MAX_TOLD), ") move towards the "),
            *("weights and take their place in ", side, " only, as Lookahead's do"),
        )
        words = {"title": short, "short": short, "fix": FIX, "short_fix": SHORT_FIX}
        return merged(causes, parts[0], parts, kind=NEWLY_UPDATED, expected=False, **words)
    return list(causes)


def _slow(module: Module, lone: Collection[int]) -> list[int]:
    """The inputs of one side alone whose new value is also that of a tensor it is made of."""
    new = updates(module)
    own = [p for p in module.entry_computation.parameters if p in lone and p in new]
    return [p for p in own if any(_is_taken(module, p, k, new) for k in new[p])]


def _is_taken(module: Module, slow: int, place: int, new: Mapping[int, Sequence[int]]) -> bool:
    """Whether an output stands twice: as a tensor's new value, and as that of one it follows."""
    value = module.outputs[place]
    beside = {k for k, other in enumerate(module.outputs) if other == value and k != place}
    if not beside:
        return False
    made = formula(module, value)
    return any(
        p in made and p != slow and not beside.isdisjoint(places)
        for p, places in new.items()
        if bare_shape(module, p) == bare_shape(module, slow)
    )
