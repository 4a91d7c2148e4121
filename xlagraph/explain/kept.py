"""Tensors that one module gives back more than the other, and what they are made of."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from xlagraph.cause.slices import made_of
from xlagraph.message import A, B
from xlagraph.rules.inputs.live_tensors import LIVE_TENSOR

if TYPE_CHECKING:
    from xlagraph.cause.model import Cause
    from xlagraph.diff import Diff
    from xlagraph.message import Side


class Kept(NamedTuple):
    """A tensor that one side alone gives back."""

    side: Side
    value: int
    made_alone: set[int]
    """It, and what it is made of by instructions of its side alone."""


def kept_alone(diff: Diff, cause: Cause) -> list[Kept]:
    """The tensors of which a proved cause says that one side alone keeps them; none of others."""
    if cause.kind is not LIVE_TENSOR or not cause.proved:
        return []
    sides = (
        (A, diff.a, {*diff.removed}, {i for one in cause.evidence for i in one.a}),
        (B, diff.b, {*diff.added}, {i for one in cause.evidence for i in one.b}),
    )
    return [
        Kept(side, i, made_of(module, i, alone))
        for side, module, alone, cited in sides
        for i in cited & {*module.outputs}
    ]
