"""Gradients of earlier micro-batches that come in without a name, and are added to."""

from __future__ import annotations

from typing import TYPE_CHECKING

from xlagraph.cause.editor import is_input
from xlagraph.facts.training.gradients import gradient_of, through_forms, uses_of
from xlagraph.facts.values.scalars import without_one

if TYPE_CHECKING:
    from xlagraph.cause.case import SideView


def accumulated(less: SideView, more: SideView) -> frozenset[int]:
    """Inputs of one side that are only added to what the other side gives out as it is.

    The sum is given out instead. These are gradients, as far as the graph tells, if any of them is
    one of a weight; a total of losses is a number. Empty where the capture knows inputs by name.
    """
    module, given = more.module, {*more.module.outputs}
    if more.context.parameters:
        return frozenset()
    found: dict[int, int] = {}
    for p in module.entry_computation.parameters:
        if more.partners[p] >= 0 or not is_input(module, p) or module.shapes[p].endswith("[]"):
            continue
        sums = uses_of(module, p)
        if len(sums) != 1 or module.opcodes[sums[0]] != "add":
            continue
        new = [o for o in module.operands[sums[0]] if through_forms(module, o) != p]
        if len(new) == 1 and {sums[0], *module.users[sums[0]]} & given:
            found[p] = without_one(module, new[0])
    other = {through_forms(less.module, value) for value in less.module.outputs}
    partners = {p: more.partners[through_forms(module, new)] for p, new in found.items()}
    if not found or not other.issuperset(partners.values()):
        return frozenset()
    is_any = any(gradient_of(module, new) is not None for new in found.values())
    return frozenset(found) if is_any else frozenset()
