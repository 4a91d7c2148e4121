"""Detector for state in its first step: made from constants there, an input from then on."""

from __future__ import annotations

from typing import TYPE_CHECKING

from xlagraph.cause.finding import Case, Finding, count, join, short_shape
from xlagraph.cause.model import Evidence
from xlagraph.cause.pieces import piece_of
from xlagraph.cause.places import at, where
from xlagraph.cause.sides import A, B
from xlagraph.cause.state import STATE_FIX, is_optimizer_state
from xlagraph.cause.updates import made_anew

if TYPE_CHECKING:
    from xlagraph.cause.draft import Draft


def initial_state(case: Case) -> list[Finding]:
    """Tensors that one side makes from constants alone and the other takes in.

    An optimizer's moments, a hidden state or a counter look like this: zeros in their first
    step, an input in every later one.
    """
    found = []
    for forward in (True, False):
        groups: dict[bool, list[tuple[int, int, str]]] = {}
        for pair in made_anew(case, forward=forward):
            name = pair[2]
            groups.setdefault(bool(name) and is_optimizer_state([name], ()), []).append(pair)
        found += [
            _finding(case, group, forward=forward, optimizer=optimizer)
            for optimizer, group in sorted(groups.items())
        ]
    return found


def _finding(
    case: Case, pairs: list[tuple[int, int, str]], *, forward: bool, optimizer: bool
) -> Finding:
    match = case.diff.match
    made, taken = (match.a, match.b) if forward else (match.b, match.a)
    partners, claimed = (match.to_b, case.claimed_a) if forward else (match.to_a, case.claimed_b)
    values, parameters = {v for v, _, _ in pairs}, {p for _, p, _ in pairs}
    piece = piece_of(made.module, values, partners, claimed) | values
    lines = where(made.module, piece) or where(taken.module, parameters)
    listed = join(name or short_shape(taken.module, p) for _, p, name in pairs)
    side, other = (A, B) if forward else (B, A)

    def undo(draft_a: Draft, draft_b: Draft) -> None:
        first, second = (draft_a, draft_b) if forward else (draft_b, draft_a)
        for value, parameter, _ in pairs:
            first.become_undone(value, (), str(value))
            second.become_undone(parameter, (), str(value))

    number = count(len(pairs), "state tensor" if optimizer else "tensor")
    is_one = len(pairs) == 1
    return Finding(
        kind="optimizer-state" if optimizer else "initial-state",
        title=f"{number} that {side} makes from constants {'comes' if is_one else 'come'} into "
        f"{other} as {'an input' if is_one else 'inputs'} ({listed}){at(lines)}",
        evidence=(
            Evidence(
                f"{other} takes in what {side} computes from nothing but constants; a tensor's "
                "first value looks like this",
                tuple(sorted(values if forward else parameters))[:50],
                tuple(sorted(parameters if forward else values))[:50],
                lines,
            ),
        ),
        fix=STATE_FIX if optimizer else INITIAL_FIX,
        proof="the constants and the inputs were replaced by one operation",
        a=frozenset(piece if forward else parameters),
        b=frozenset(parameters if forward else piece),
        undo=undo,
        expected=forward,
    )


INITIAL_FIX = (
    "Expected once for a state (a hidden state, a counter), in the step after its first. To save "
    "the compile, call torch_xla.sync() once the tensor is made, before the loop; where a later "
    "step makes it anew, do the same there."
)
