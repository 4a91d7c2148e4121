"""Gradients that one module clips by their norm; the other clips what the optimizer makes of them.

An optax chain whose parts stand in another order does the same operations, so that these pair, and
nothing of them is one side's alone.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from xlagraph.cause.rule import Rule
from xlagraph.cause.slices import made_of
from xlagraph.facts.pieces.clips import ClippedSide, all_sizes, by_norm, clipped_otherwise
from xlagraph.facts.values.telling import HEAVY
from xlagraph.message import say
from xlagraph.rules.training.clipping import CLIPPING

if TYPE_CHECKING:
    from xlagraph.cause.case import Case, SideView
    from xlagraph.cause.finding import Finding
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
        begins = {one.partners[value] for value in early.values()}
        if early and _is_before(one, other, early, late, begins):
            sides = ClippedSide(one, early, early), ClippedSide(other, late, begins)
            text = say(
                "gradients are clipped by their norm before the optimizer takes them in ",
                *(one.side, "; ", other.side, " clips what it makes of them"),
            )
            fixes = FIX, SHORT_FIX
            return [clipped_otherwise(CLIPPING, *sides, text, fixes, "tensors")]
    return []


def _is_before(
    one: SideView, other: SideView, early: Clipped, late: Clipped, begins: set[int]
) -> bool:
    """Whether one side clips what the other clips only after more is made of each tensor.

    `begins`: what the other side has for the tensors that are clipped early.
    """
    if all_sizes(one.module, early) != all_sizes(other.module, late) or -1 in begins:
        return False
    module = other.module
    below = set[int]().union(*(made_of(module, value) for value in begins))
    made = [made_of(module, value) for value in late.values()]
    if not begins.isdisjoint(late.values()) or any(begins.isdisjoint(own) for own in made):
        return False
    own = set[int]().union(*made) - below  # of an optimizer; more of a gradient has products
    return HEAVY.isdisjoint(module.opcodes[i] for i in own)


RULE = Rule(
    name="moved-clipping",
    kinds=(),
    find=find,
    after=("crossed-operands",),
    before=("edited-piece",),
    rematches=True,
    last_resort=True,
)
