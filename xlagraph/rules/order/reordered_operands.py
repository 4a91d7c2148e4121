"""An operation that takes the same values in another order."""

from __future__ import annotations

import re
from collections import Counter
from typing import TYPE_CHECKING, NamedTuple

from xlagraph.cause.finding import Finding
from xlagraph.cause.kinds import Kind, Section
from xlagraph.cause.model import Evidence
from xlagraph.cause.rule import Rule
from xlagraph.cause.sources import at, where
from xlagraph.facts.values.scalars import without_one
from xlagraph.facts.values.terms import COMMUTATIVE
from xlagraph.hlo.shapes import read_shape
from xlagraph.message import EMPTY, A, B, HloName, count, join, say

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from xlagraph.cause.case import Case
    from xlagraph.cause.editor import Editors
    from xlagraph.graph import Module
    from xlagraph.message import Message

REORDERED_OPERANDS = Kind(
    id="reordered-operands",
    title="An operation takes the same values in another order",
    section=Section.PIECES,
    meaning="a - b became b - a, the parts of a concatenation stand in another order, the branches "
    "of a conditional changed places. What goes in is the same, and so is what becomes of it; only "
    "the places differ. Iterating over a set or a dict whose order changes is a usual reason, a "
    "condition that was turned round another.",
    before="""\
for step, (x, y) in enumerate(loader):
    parts = [torch.sin(x), torch.cos(x)]
    joined = torch.cat(parts if step % 2 else parts[::-1], dim=1)
    update(loss_fn(torch.tanh(joined @ weight) + model(x), y))
""",
    after="""\
for x, y in loader:
    joined = torch.cat([torch.sin(x), torch.cos(x)], dim=1)
    update(loss_fn(torch.tanh(joined @ weight) + model(x), y))
""",
    evidence="The operation, with what it takes in on both sides.",
    fix="Give the values in the same order in every step (no iteration over a set, one spelling of "
    "a condition or an expression); where the order is meant to change, select on the device "
    "(torch.where).",
    proof="A's operation is given its operands, or branches, in B's order.",
    examples=(
        "joined_order",
        "difference_turned",
        "product_turned",
        "selection_turned",
        "parts_reordered",
        "parts_of_other_widths_reordered",
        "cond_swapped",
    ),
    short="An operation takes its values in another order",
    short_fix="Give the values in the same order in every step.",
)


SAME_RESULT = say(
    "the result is the same; the order is part of the graph, so that XLA compiles it anew"
)
PARTS_SHORT_FIX = say("Split the tensor in the same order: values are others otherwise.")
_BOUNDS = re.compile(r"\[(\d+):(\d+)\]")


def find(case: Case) -> list[Finding]:
    """Pairs whose operands are each other's partners, at other places; branches likewise."""
    found = []
    for x, y in case.changed_alone("operands"):
        order = order_of_operands(case, x, y)
        if order:
            found.append(_operands_finding(case, x, y, order))
        elif (factors := _factors_of_one(case, x, y)) is not None:
            found.append(_factors_finding(case, x, y, factors))
    return found + [
        _branches_finding(case, x, y)
        for x, y in _conditionals(case)
        if x not in case.a.claimed and _branches_changed_places(case, x, y)
    ]


def order_of_operands(case: Case, x: int, y: int) -> tuple[int, ...]:
    """A's operands in B's order; empty where they are not the same values."""
    mine, theirs = case.diff.a.operands[x], case.diff.b.operands[y]
    order = tuple(case.b.partners[q] for q in theirs)
    return order if Counter(order) == Counter(mine) and order != mine else ()


def _conditionals(case: Case) -> list[tuple[int, int]]:
    a, partners = case.diff.a, case.a.partners
    pairs = [(x, partners[x]) for x in a.callees if a.opcodes[x] == "conditional"]
    return [(x, y) for x, y in pairs if y >= 0 and len(a.callees[x]) > 1]


def _branches_changed_places(case: Case, x: int, y: int) -> bool:
    """Whether both call equal computations, in another order."""
    mine = [case.a.matched.computations[c] for c in case.diff.a.callees[x]]
    theirs = [case.b.matched.computations[c] for c in case.diff.b.callees.get(y, ())]
    return mine != theirs and Counter(mine) == Counter(theirs)


def _in_short(case: Case, x: int, parts: Mapping[int, int]) -> Message:
    """Which part of a tensor an operation takes on either side; empty where none takes another.

    Empty as well where the parts are of what A's operation `x` makes, as of a gradient.
    """
    a, b = case.diff.a, case.diff.b
    for p, q in parts.items() if max(parts, default=x) < x else ():
        sides = (_BOUNDS.findall(m.attributes[i].get("slice") or "") for m, i in ((a, p), (b, q)))
        ranges = [tuple(map(":".join, one)) for one in sides]
        pairs = (pair for pair in zip(*ranges, strict=False) if pair[0] != pair[1])
        own, other = next(pairs, ("", ""))
        users = [user for user in a.users[p] if case.a.partners[user] >= 0]
        if own and users:
            takes = f"{a.opcodes[users[0]]} takes [{other}] of a tensor"
            return say(takes, f" in place of [{own}]")
    return EMPTY


def _operands_finding(case: Case, x: int, y: int, order: tuple[int, ...]) -> Finding:
    a, b = case.diff.a, case.diff.b
    lines = where(b, [y]) or where(a, [x])
    parts = _parts_taken(case, x, y)
    text = say(
        f"{a.opcodes[x]} of ", _listed(a, a.operands[x]), " in ", A, ", of ", _listed(a, order),
        " in ", B,
    )  # fmt: skip

    def undo(edit: Editors) -> None:
        edit.a.set_operands(x, order)
        for p, q in parts.items():
            edit.a.attributes[p] = b.attributes[q]

    taken = count(len(parts), "slice")
    again = say(f"{taken} of the same size, as the gradient's, take the parts at their new places")
    return Finding(
        kind=REORDERED_OPERANDS,
        title=say(f"{a.opcodes[x]} takes the same values in another order", at(lines)),
        evidence=(
            Evidence(text, (x,), (y,), lines),
            *((Evidence(again, tuple(parts), tuple(parts.values())),) if parts else ()),
            *((Evidence(SAME_RESULT),) if a.opcodes[x] in COMMUTATIVE else ()),
        ),
        short=(short := _in_short(case, x, parts)),
        short_fix=PARTS_SHORT_FIX if short else EMPTY,
        proof=say("the operands in ", A, " were put into ", B, "'s order"),
        a=frozenset((x, *parts)),
        b=frozenset((y, *parts.values())),
        undo=undo,
        is_exact=a.opcodes[x] in COMMUTATIVE,
    )


class _Factors(NamedTuple):
    """What an operation takes but for products with 1, the same on both sides in any order."""

    taken_a: tuple[int, ...]
    """A's, in B's order."""
    taken_b: tuple[int, ...]
    own_a: frozenset[int]
    """The products with 1 that only this operation takes in."""
    own_b: frozenset[int]


def _factors_of_one(case: Case, x: int, y: int) -> _Factors | None:
    """The operands but for products with 1, if they are each other's partners in any order.

    Autograd adds ``g + h * 1`` where ``alpha`` is 1: of two gradients that change places the other
    one is multiplied.
    """
    a, b = case.diff.a, case.diff.b
    if a.opcodes[x] not in COMMUTATIVE:
        return None
    mine, theirs = ([without_one(m, o) for o in m.operands[i]] for m, i in ((a, x), (b, y)))
    order = tuple(case.b.partners[q] for q in theirs)
    if Counter(order) != Counter(mine) or min(order) < 0:
        return None
    return _Factors(order, tuple(theirs), _products(a, x), _products(b, y))


def _products(module: Module, i: int) -> frozenset[int]:
    products = (o for o in module.operands[i] if without_one(module, o) != o)
    return frozenset(o for o in products if module.users[o] == (i,))


def _factors_finding(case: Case, x: int, y: int, factors: _Factors) -> Finding:
    a, b = case.diff.a, case.diff.b
    lines = where(b, [y]) or where(a, [x])
    text = say(
        f"{a.opcodes[x]} of ", _listed(a, a.operands[x]), " in ", A, ", of ",
        _listed(b, b.operands[y]), " in ", B, ", which are the same but for a factor of 1",
    )  # fmt: skip

    def undo(edit: Editors) -> None:
        edit.a.set_operands(x, factors.taken_a)
        edit.b.set_operands(y, factors.taken_b)

    return Finding(
        kind=REORDERED_OPERANDS,
        title=say(f"{a.opcodes[x]} takes the same values in another order", at(lines)),
        evidence=(Evidence(text, (x,), (y,), lines), Evidence(SAME_RESULT)),
        proof=say(
            "factors of 1 were left out, and the operands in ", A, " put into ", B, "'s order"
        ),
        a=factors.own_a | {x},
        b=factors.own_b | {y},
        undo=undo,
        is_exact=True,
    )


def _parts_taken(case: Case, x: int, y: int) -> dict[int, int]:
    """Slices, A's to B's, that take a concatenation's parts, or their gradients, where they lie."""
    a, b = case.diff.a, case.diff.b
    if a.opcodes[x] != "concatenate":
        return {}
    places_b = _places(b, y)
    moved = {
        (place, places_b[case.a.partners[p]])
        for p, place in _places(a, x).items()
        if case.a.partners[p] in places_b
    }
    axis = _axis(a, x)

    def follows(p: int, q: int) -> bool:
        old, new = _bounds(a, p), _bounds(b, q)
        if a.opcodes[p] != "slice" or len(old) != len(new) or axis >= len(old):
            return False
        rest = [k for k in range(len(old)) if k != axis]
        alike = all(old[k] == new[k] for k in rest)
        whole = _sizes(a, a.operands[p][0]) == _sizes(a, x)
        return alike and whole and (old[axis], new[axis]) in moved

    return {p: q for p, q in case.changed_alone("attributes") if follows(p, q)}


def _axis(module: Module, i: int) -> int:
    text = (module.attributes[i].get("dimensions") or "").strip("{}")
    return int(text) if text.isdecimal() else 0


def _places(module: Module, i: int) -> dict[int, tuple[int, int]]:
    """Where each operand of a concatenation lies along its dimension.

    None that has no such dimension: in a proof sizes may have been undone on one side of it.
    """
    found: dict[int, tuple[int, int]] = {}
    low, axis = 0, _axis(module, i)
    for o in module.operands[i]:
        sizes = _sizes(module, o)
        if axis >= len(sizes):
            return {}
        high = low + sizes[axis]
        found[o] = low, high
        low = high
    return found


def _sizes(module: Module, i: int) -> tuple[int, ...]:
    return tuple(read_shape(module.shapes[i]).dimensions)


def _bounds(module: Module, i: int) -> list[tuple[int, int]]:
    """The bounds of a slice without strides."""
    text = module.attributes[i].get("slice") or ""
    return [(int(low), int(high)) for low, high in _BOUNDS.findall(text)]


def _listed(module: Module, operands: Sequence[int]) -> Message:
    names = (HloName(module.names[o], module.opcodes[o]) for o in operands)
    return say("(", join(names), ")")


def _branches_finding(case: Case, x: int, y: int) -> Finding:
    a, b = case.diff.a, case.diff.b
    mine, theirs = a.callees[x], b.callees[y]
    by_number: dict[int, list[int]] = {}
    for k, c in enumerate(mine):
        by_number.setdefault(case.a.matched.computations[c], []).append(k)
    places = [by_number[case.b.matched.computations[d]].pop(0) for d in theirs]
    lines = where(b, [y]) or where(a, [x])
    moves = join(f"branch {k} -> {n}" for n, k in enumerate(places) if n != k)
    index, *taken = a.operands[x]

    def undo(edit: Editors) -> None:
        edit.a.callees[x] = tuple(mine[k] for k in places)
        edit.a.set_operands(x, (index, *(taken[k] for k in places)))

    return Finding(
        kind=REORDERED_OPERANDS,
        title=say("the branches of a conditional changed places", at(lines)),
        evidence=(
            Evidence(
                say(HloName(a.names[x], a.opcodes[x]), ", ", A, " -> ", B, ": ", moves),
                (x,),
                (y,),
                lines,
            ),
        ),
        proof=say("the branches in ", A, " were put into ", B, "'s order"),
        a=frozenset((x, *_bodies(a, mine))),
        b=frozenset((y, *_bodies(b, theirs))),
        undo=undo,
    )


def _bodies(module: Module, computations: Sequence[int]) -> list[int]:
    found = (module.computations[c] for c in computations)
    return [i for one in found for i in range(one.start, one.stop)]


RULE = Rule(
    name="reordered-operands",
    kinds=(REORDERED_OPERANDS,),
    find=find,
    after=("rematerialization",),
    before=("dtype",),
)
