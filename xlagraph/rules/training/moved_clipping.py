"""Gradients that one module clips by their norm; the other clips what the optimizer makes of them.

An optax chain whose parts stand in another order does the same operations, so that these pair, and
nothing of them is one side's alone.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from xlagraph.cause.finding import Finding
from xlagraph.cause.model import Evidence
from xlagraph.cause.rule import Rule
from xlagraph.cause.slices import made_of
from xlagraph.cause.sources import at, where
from xlagraph.facts.pieces.clips import by_norm, clipping_of, sizes, unclip
from xlagraph.message import count, say
from xlagraph.rules.training.clipping import CLIPPING

if TYPE_CHECKING:
    from xlagraph.cause.case import Case, SideView
    from xlagraph.cause.editor import Editors
    from xlagraph.facts.pieces.clips import Clipped

FIX = say(
    "Clip at one place in both: in an optax chain the transformations run in the order in which "
    "they stand, and clipping behind scale_by_adam limits the step and not the gradient."
)
SHORT_FIX = say("Keep the order of the optimizer's parts (optax.chain) in both.")


def find(case: Case) -> list[Finding]:
    """Tensors that both modules clip by their norm, as many, one of them after more is made."""
    for one, other in case.both_ways:
        early = by_norm(one.module)
        late = by_norm(other.module) if early else {}
        if _is_before(one, other, early, late):
            return [_finding(one, other, early, late)]
    return []


def _is_before(one: SideView, other: SideView, early: Clipped, late: Clipped) -> bool:
    """Whether one side clips what the other clips only after more is made of each tensor."""
    of_one, of_other = (
        Counter(sizes(view.module, i) for i in clipped)
        for view, clipped in ((one, early), (other, late))
    )
    begins = {one.partners[value] for value in early.values()}
    if not early or of_one != of_other or -1 in begins or not begins.isdisjoint(late.values()):
        return False
    return all(made_of(other.module, value) & begins for value in late.values())


def _finding(one: SideView, other: SideView, early: Clipped, late: Clipped) -> Finding:
    own, others = clipping_of(one.module, early), clipping_of(other.module, late)
    claimed_a, claimed_b = one.ab(frozenset(own), frozenset(others))
    cited_a, cited_b = one.ab(tuple(sorted(early)), tuple(sorted(late)))
    lines = where(other.module, sorted(late)) or where(one.module, sorted(early))
    text = say(
        *("gradients are clipped by their norm before the optimizer takes them in ", one.side),
        *("; ", other.side, " clips what it makes of them"),
    )
    begins = [one.partners[value] for value in early.values()]

    def undo(edit: Editors) -> None:
        unclip(edit[one.side], early, early, own)
        unclip(edit[other.side], late, begins, others)

    return Finding(
        kind=CLIPPING,
        title=say(text, f", for {count(len(early), 'tensor')}", at(lines)),
        short=text,
        evidence=(Evidence(text, cited_a, cited_b, lines),),
        fix=FIX,
        short_fix=SHORT_FIX,
        proof=say("both were given the tensors as they are before they are clipped"),
        a=claimed_a,
        b=claimed_b,
        undo=undo,
    )


RULE = Rule(
    name="moved-clipping",
    kinds=(),
    find=find,
    after=("crossed-operands",),
    before=("edited-piece",),
    rematches=True,
    last_resort=True,
)
