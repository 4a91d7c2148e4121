"""What a proof compares: outputs that undoing causes set aside are no part of it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from xlagraph.cause.case import Case
from xlagraph.cause.model import Scope
from xlagraph.cause.names import output_name
from xlagraph.message import A, B, join, say

if TYPE_CHECKING:
    from xlagraph.cause.model import Context
    from xlagraph.diff import Diff
    from xlagraph.explain.proof import ProofState
    from xlagraph.message import Message

MAX_NAMED = 3
"""Outputs of one side that the headline names; the others are counted."""


def scope_of(state: ProofState) -> Scope:
    """The outputs of both modules that the state of a proof leaves out."""
    kept_a, kept_b = set(state.places_a), set(state.places_b)
    a, b = state.diff.a.outputs, state.diff.b.outputs
    return Scope(
        tuple(k for k in range(len(a)) if k not in kept_a),
        tuple(k for k in range(len(b)) if k not in kept_b),
        len(a),
        len(b),
    )


def scope_sentence(scope: Scope, diff: Diff, context_a: Context, context_b: Context) -> Message:
    """How many outputs are compared, and which are not; empty where all are."""
    if not scope.sets_aside:
        return say()
    case = Case.of(diff, context_a, context_b)
    parts = [
        say(side, "'s ", join((output_name(view, k) for k in aside), MAX_NAMED))
        for side, view, aside in ((A, case.a, scope.a), (B, case.b, scope.b))
        if aside
    ]
    return say("Proved for ", scope.compared, "; not compared: ", join(parts, 2, "; "), ".")
