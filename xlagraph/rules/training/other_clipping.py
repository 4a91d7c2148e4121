"""Gradients that one module clips by the norm of all of them, and the other each by value.

Both stand before every update, so whatever else differs spreads into what they are made of: they
are asked for by what they compute, and taken out on each side.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from xlagraph.cause.finding import Finding
from xlagraph.cause.model import Evidence
from xlagraph.cause.rule import Rule
from xlagraph.cause.sources import at, where
from xlagraph.facts.pieces.clips import by_norm, by_value, clipping_of, sizes, unclip
from xlagraph.message import count, say
from xlagraph.rules.training.clipping import CLIPPING

if TYPE_CHECKING:
    from collections.abc import Callable

    from xlagraph.cause.case import Case, SideView
    from xlagraph.cause.editor import Editors
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
        if scaled and _shapes(one.module, scaled) == _shapes(other.module, cut):
            return [_finding(one, other, scaled, cut)]
    return []


def _own(view: SideView, other: SideView, clipped: Callable[[Module], Clipped]) -> Clipped:
    """What one side clips that the other does not clip alike."""
    own, theirs = clipped(view.module), clipped(other.module)
    return {i: value for i, value in own.items() if view.partners[i] not in theirs}


def _shapes(module: Module, clipped: Clipped) -> Counter[tuple[int, ...]]:
    return Counter(sizes(module, i) for i in clipped)


def _finding(norm: SideView, value: SideView, scaled: Clipped, cut: Clipped) -> Finding:
    own, others = clipping_of(norm.module, scaled), clipping_of(value.module, cut)
    claimed_a, claimed_b = norm.ab(frozenset(own), frozenset(others))
    cited_a, cited_b = norm.ab(tuple(sorted(scaled)), tuple(sorted(cut)))
    lines = where(value.module, sorted(cut)) or where(norm.module, sorted(scaled))
    text = _text(norm, value)

    def undo(edit: Editors) -> None:
        for view, clipped, piece in ((norm, scaled, own), (value, cut, others)):
            unclip(edit[view.side], clipped, clipped, piece)

    return Finding(
        kind=CLIPPING,
        title=say(text, f", for {count(len(scaled), 'tensor')}", at(lines)),
        short=text,
        evidence=(Evidence(text, cited_a, cited_b, lines),),
        fix=FIX,
        short_fix=SHORT_FIX,
        proof=say("both were given the gradients as they are before they are clipped"),
        a=claimed_a,
        b=claimed_b,
        undo=undo,
    )


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
