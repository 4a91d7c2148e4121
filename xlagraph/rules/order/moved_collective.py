"""A sum over devices that stands before a scaling on one side and behind it on the other."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, NamedTuple

from xlagraph.canon.labels import signature
from xlagraph.cause.finding import Finding
from xlagraph.cause.model import Evidence
from xlagraph.cause.rule import Rule
from xlagraph.cause.sources import at, where
from xlagraph.facts.values.scalars import is_number, number_of, unspread
from xlagraph.message import A, B, count, say
from xlagraph.rules.pieces.replaced_subgraph import REPLACED_SUBGRAPH

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from xlagraph.cause.case import Case, SideView
    from xlagraph.cause.editor import Editors
    from xlagraph.graph import Module

OPCODE = "all-reduce"
SCALING = frozenset({"divide", "multiply"})
MAX_STEPS = 2000
"""Instructions between a number that scales values and the sum that it is made of."""
FIX = say(
    "The order of a sum over devices and of clipping counts: summed first, all gradients are "
    "clipped by the norm of the whole batch; clipped first, each device clips by its own. Keep one "
    "order in every step and version, in general the sum first."
)
SHORT_FIX = say("Keep one order: sum over the devices first, then clip.")


class Summed(NamedTuple):
    """A sum over devices, with the division behind it that makes a mean of it."""

    reduced: int
    end: int
    """The sum itself, or the mean."""


def find(case: Case) -> list[Finding]:
    """As many sums of the same shapes on both sides, that one side takes of what is scaled by norm.

    The other one has the sum of what that scales, and scales that.
    """
    groups = [_sums(case, view) for view in (case.a, case.b)]
    kinds = [_kinds(view, group) for view, group in zip((case.a, case.b), groups, strict=True)]
    if not groups[0] or kinds[0] != kinds[1]:
        return []
    for (_, scaled), own in zip(case.both_ways, reversed(groups), strict=True):
        if all(_is_clipped(scaled.module, one.reduced) for one in own):
            return [_finding(case, scaled, groups[0], groups[1])]
    return []


def _sums(case: Case, view: SideView) -> list[Summed]:
    changed = [view.mine((x, y)) for x, y, _ in case.open_changes()]
    module = view.module
    found = (i for i in sorted((*changed, *view.open_lone())) if module.opcodes[i] == OPCODE)
    return [Summed(i, _mean(module, i)) for i in found if len(module.operands[i]) == 1]


def _mean(module: Module, i: int) -> int:
    """The division of a sum by a number that is known; else the sum."""
    users = module.users[i]
    if len(users) != 1 or module.opcodes[users[0]] not in SCALING:
        return i
    others = [o for o in module.operands[users[0]] if o != i]
    number = number_of(module, others[0]) if len(others) == 1 else None
    return users[0] if number is not None and module.opcodes[number] == "constant" else i


def _kinds(view: SideView, group: Iterable[Summed]) -> Counter[tuple[object, ...]]:
    """What is summed over which devices, by shape, and by what it is divided."""
    module = view.module

    def divisor(one: Summed) -> tuple[str, ...]:
        below = module.operands[one.end] if one.end != one.reduced else ()
        numbers = (unspread(module, o) for o in below if o != one.reduced)
        return tuple(module.payloads[number] for number in numbers)

    return Counter(
        (
            module.shapes[one.reduced].partition("{")[0],
            signature(OPCODE, module.attributes[one.reduced]),
            tuple(view.matched.computations[c] for c in module.callees.get(one.reduced, ())),
            module.opcodes[one.end],
            divisor(one),
        )
        for one in group
    )


def _is_clipped(module: Module, reduced: int) -> bool:
    """Whether what is summed is scaled by a number that is computed of sums over its elements."""
    (value,) = module.operands[reduced]
    if module.opcodes[value] not in SCALING:
        return False
    numbers = [o for o in module.operands[value] if is_number(module, o)]
    return len(numbers) == 1 and _is_of_sums(module, numbers[0])


def _is_of_sums(module: Module, number: int) -> bool:
    stack, seen = [number], set[int]()
    while stack and len(seen) < MAX_STEPS:
        i = stack.pop()
        if module.opcodes[i] == "reduce":
            return True
        if i not in seen and is_number(module, i):
            seen.add(i)
            stack += module.operands[i]
    return False


def _finding(
    case: Case, scaled: SideView, group_a: Sequence[Summed], group_b: Sequence[Summed]
) -> Finding:
    a, b = case.diff.a, case.diff.b
    own_a, own_b = ([one.reduced for one in group] for group in (group_a, group_b))
    lines = where(b, own_b) or where(a, own_a)
    other = scaled.side.other
    what = say("gradients are summed over the devices before they are clipped in ", other)

    def undo(edit: Editors) -> None:
        for editor, group in ((edit.a, group_a), (edit.b, group_b)):
            editor.replace_uses({one.end: editor.operands[one.reduced][0] for one in group})
            for one in group:
                editor.become_undone(one.reduced, ())

    return Finding(
        kind=REPLACED_SUBGRAPH,
        title=say(what, ", and behind that in ", scaled.side, at(lines)),
        evidence=(
            Evidence(
                say(f"{count(len(own_a), OPCODE)} of the same shapes on both sides"),
                tuple(own_a),
                tuple(own_b),
                lines,
            ),
        ),
        fix=FIX,
        short=say(what, ", behind that in ", scaled.side),
        short_fix=SHORT_FIX,
        proof=say("the sums were left out in ", A, " and in ", B),
        a=frozenset(i for one in group_a for i in one),
        b=frozenset(i for one in group_b for i in one),
        undo=undo,
    )


RULE = Rule(
    name="moved-collective",
    kinds=(),
    find=find,
    after=("moved-factor",),
    before=("shifted-seeds",),
    rematches=True,
)
