"""Gradients that one module clips by the norm of all of them, and the other each by value.

Both stand before every update, so whatever else differs spreads into what they are made of: they
are asked for by what they compute, and taken out on each side.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from xlagraph.canon.labels import bare_shape
from xlagraph.cause.finding import Finding
from xlagraph.cause.model import Evidence
from xlagraph.cause.rule import Rule
from xlagraph.cause.slices import made_of
from xlagraph.cause.sources import at, where
from xlagraph.facts.pieces.clips import behind, by_norm, by_value, forms, sizes
from xlagraph.message import count, say
from xlagraph.rules.training.clipping import CLIPPING

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

    from xlagraph.cause.case import Case, SideView
    from xlagraph.cause.editor import Editors, ModuleEditor
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
    own, others = _piece(norm.module, scaled), _piece(value.module, cut)
    claimed_a, claimed_b = norm.ab(frozenset(own), frozenset(others))
    cited_a, cited_b = norm.ab(tuple(sorted(scaled)), tuple(sorted(cut)))
    lines = where(value.module, sorted(cut)) or where(norm.module, sorted(scaled))
    text = _text(norm, value)

    def undo(edit: Editors) -> None:
        for view, clipped, piece in ((norm, scaled, own), (value, cut, others)):
            _undo(edit[view.side], clipped, piece)

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


def _undo(edit: ModuleEditor, clipped: Clipped, piece: Collection[int]) -> None:
    """Gives what is behind the tensors as they are: in which layout, or view, is no matter."""
    module = edit.module
    views = forms(module, clipped)
    for i in behind(module, clipped):
        edit.shapes[i] = bare_shape(module, i)
    for i in piece:  # what is left of it pairs with nothing
        if module.operands[i]:
            edit.become_undone(i, ())
    for i, (value, order) in views.items():
        if order:
            edit.become_undone(i, (value,), order)
    edit.replace_uses({i: value for i, (value, order) in views.items() if not order})


def _text(norm: SideView, value: SideView) -> Message:
    return say("gradients are clipped by their norm in ", norm.side, ", by value in ", value.side)


def _piece(module: Module, clipped: Clipped) -> set[int]:
    """What is computed for the clipped tensors alone, behind what they are made of."""
    left = set[int]()
    for i in sorted(set[int]().union(*(made_of(module, i) for i in clipped)), reverse=True):
        kept = i in module.outputs and i not in clipped
        used = all(u in left for u in module.users[i])
        if i in clipped or (used and not kept):
            left.add(i)
    below = set[int]().union(*(made_of(module, value) for value in clipped.values()))
    return left - below


RULE = Rule(
    name="other-clipping",
    kinds=(),
    find=find,
    after=("nesterov",),
    before=("optimizer-state",),
    rematches=True,
)
