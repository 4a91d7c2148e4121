"""The same operations on several values, in another order: augmentations that are drawn."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, NamedTuple

from xlagraph.canon.labels import signature
from xlagraph.canon.live import has_effect
from xlagraph.cause.finding import Finding
from xlagraph.cause.model import Evidence
from xlagraph.cause.rule import Rule
from xlagraph.cause.sources import at, operations, where
from xlagraph.message import A, B, count, say
from xlagraph.rules.order.turned_operations import FIX, SHORT, SHORT_FIX
from xlagraph.rules.pieces.replaced_subgraph import REPLACED_SUBGRAPH

if TYPE_CHECKING:
    from xlagraph.cause.case import Case, SideView
    from xlagraph.cause.editor import Editors

MAX_SIZE = 64
"""Operations of one side: of more the same ones may stand anywhere."""
MAX_CITED = 50


class Stretch(NamedTuple):
    """What one side computes between values that both have and one that both use alike."""

    end: int
    members: frozenset[int]
    inputs: frozenset[int]
    """What it takes in, by A's numbers."""


def find(case: Case) -> list[Finding]:
    """All that differs lies between values that both have and one that both use alike.

    Both compute it with the same operations, each as often and of the same shapes.
    """
    changes = case.open_changes()
    if not changes:
        return []
    changed = {x for x, _, _ in changes}, {y for _, y, _ in changes}
    end = max(changed[0])
    if case.a.partners[end] != max(changed[1]):
        return []
    one = _stretch(case.a, end, changed[0])
    other = _stretch(case.b, case.a.partners[end], changed[1])
    if one is None or other is None or one.inputs != other.inputs:
        return []
    return [_finding(case, one, other)] if _done(case.a, one) == _done(case.b, other) else []


def _stretch(view: SideView, end: int, changed: set[int]) -> Stretch | None:
    """What leads from the first that differs to the last; None if that is too much, or not all."""
    differing = changed.union(view.open_lone())
    affected: set[int] = set()
    for i in range(min(differing), end + 1):
        if i in differing or not affected.isdisjoint(view.module.operands[i]):
            affected.add(i)
    members, stack = set[int](), [end]
    while stack and len(members) <= MAX_SIZE:
        i = stack.pop()
        if i in affected and i not in members:
            members.add(i)
            stack.extend(view.module.operands[i])
    if stack or not differing <= members or any(has_effect(view.module, i) for i in members):
        return None
    taken = {o for i in members for o in view.module.operands[i]} - members
    inputs = taken if view.is_a else {view.partners[o] for o in taken}
    return None if -1 in inputs else Stretch(end, frozenset(members), frozenset(inputs))


def _done(view: SideView, stretch: Stretch) -> Counter[tuple[object, ...]]:
    module, numbers = view.module, view.matched.computations
    return Counter(
        (
            module.opcodes[i],
            module.shapes[i],
            signature(module.opcodes[i], module.attributes[i]),
            tuple(numbers[c] for c in module.callees.get(i, ())),
        )
        for i in stretch.members
    )


def _finding(case: Case, one: Stretch, other: Stretch) -> Finding:
    b = case.diff.b
    lines = where(b, other.members) or where(case.diff.a, one.members)
    inputs_a = sorted(one.inputs)
    inputs_b = [case.a.partners[i] for i in inputs_a]

    def undo(edit: Editors) -> None:
        edit.a.become_undone(one.end, inputs_a)
        edit.b.become_undone(other.end, inputs_b)

    return Finding(
        kind=REPLACED_SUBGRAPH,
        title=say(
            f"the same {count(len(other.members), 'operation')}",
            operations(b, other.members),
            " stand in another order, or take each other's operands",
            at(lines),
        ),
        evidence=(
            Evidence(
                say(
                    A,
                    " and ",
                    B,
                    " compute a value that is used alike by the same operations on the same values",
                ),
                tuple(sorted(one.members))[:MAX_CITED],
                tuple(sorted(other.members))[:MAX_CITED],
                lines,
            ),
        ),
        fix=FIX,
        short=SHORT,
        short_fix=SHORT_FIX,
        proof=say("both were replaced by one operation on these values"),
        a=one.members,
        b=other.members,
        undo=undo,
    )


RULE = Rule(
    name="reordered-operations",
    kinds=(),
    find=find,
    after=("picked-value",),
    before=("extra-subgraph",),
    last_resort=True,
)
