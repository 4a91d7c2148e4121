"""Two values change places in the turns of a loop: what is true, and what the model says."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from xlagraph.cause.finding import Finding
from xlagraph.cause.model import Evidence
from xlagraph.cause.rule import Rule
from xlagraph.cause.sources import at, where
from xlagraph.facts.pieces.wires import in_other, source
from xlagraph.message import A, B, count, say
from xlagraph.rules.order.rewired_operations import takes
from xlagraph.rules.pieces.other_operand import OTHER_OPERAND

if TYPE_CHECKING:
    from collections.abc import Mapping

    from xlagraph.cause.case import Case
    from xlagraph.cause.editor import Editors

MAX_MADE = 6
"""Instructions that make the crossed values otherwise: more are no picks of values."""
MAX_WALKED = 24
"""Instructions between a crossed value and what makes it."""
MAX_CITED = 20


class Crossed(NamedTuple):
    """What takes crossed values, and what makes these in another turn."""

    users: Mapping[int, int]
    """A's to B's."""
    values: frozenset[int]
    """The crossed values, by A's numbers."""
    operands: Mapping[int, tuple[int, ...]]
    """For each of B's that differs what it takes where it is connected as in A."""
    sliced: Mapping[int, int]
    """Slices at other places, A's to B's."""


def find(case: Case) -> list[Finding]:
    """Values that two operations have exchanged, one of them a slice of data at another place.

    The slices of a target, and what the model computes in each turn, pair off with those of
    other turns where only some turns take the one or the other.
    """
    crossed = _crossed(case)
    return [_finding(case, crossed)] if crossed else []


def _crossed(case: Case) -> Crossed | None:
    """What is crossed, if nothing else differs."""
    a, b, changes = case.a.module, case.b.module, case.diff.changes
    sliced = {x: y for x, y, fields in changes if "attributes" in fields}
    pairs = {x: y for x, y, fields in changes}
    if (
        not sliced
        or case.a.lone
        or case.b.lone
        or any(a.opcodes[x] != "slice" for x in sliced)
        or any(not {"operands", "attributes"}.issuperset(fields) for _, _, fields in changes)
        or any(slot.a is None or slot.b is None for slot in case.diff.outputs)
    ):
        return None
    taken = {x: _taken(case, x, y) for x, y in pairs.items()}
    all_taken = {pair for found in taken.values() for pair in found}
    exchanged = {(p, q) for p, q in all_taken if (q, p) in all_taken}
    users = {x: pairs[x] for x, found in taken.items() if found and found <= exchanged}
    values = frozenset(p for p, _ in exchanged)
    made = pairs.keys() - users.keys()
    in_b = in_other(case.a, case.b, {})
    operands = {y: tuple([in_b(o) for o in a.operands[x]]) for x, y in pairs.items()}
    if (
        len(users) < 2
        or len(made) > MAX_MADE
        or not all(_are_unlike(case, p, q) for p, q in exchanged)
        or not made <= _makers(case, values, made)
        or any(-1 in found for found in operands.values())
        or any(a.shapes[x] != b.shapes[y] for x, y in sliced.items())
    ):
        return None
    return Crossed(users, values, operands, sliced)


def _taken(case: Case, x: int, y: int) -> set[tuple[int, int]]:
    """What A's operation takes, each with what B's takes in its place, both by A's numbers."""
    partners = case.b.partners
    both = zip(case.a.module.operands[x], case.b.module.operands[y], strict=True)
    return {(p, partners[q]) for p, q in both if case.a.partners[p] != q and partners[q] != p}


def _are_unlike(case: Case, p: int, q: int) -> bool:
    """Whether two of A's values come from other operations: those of one may be paired amiss."""
    module = case.a.module
    return module.opcodes[source(module, p)] != module.opcodes[source(module, q)]


def _makers(case: Case, values: frozenset[int], made: set[int]) -> set[int]:
    """Of what makes values in another turn what stands shortly before these."""
    found: set[int] = set()
    for value in values:
        stack, seen = [value], set[int]()
        while stack and len(seen) < MAX_WALKED:
            i = stack.pop(0)
            if i in made:
                found.add(i)
            elif i not in seen:
                stack.extend(case.a.module.operands[i])
            seen.add(i)
    return found


def _finding(case: Case, crossed: Crossed) -> Finding:
    a, b = case.a.module, case.b.module
    sources = [case.a.partners[source(a, value)] for value in sorted(crossed.values)]
    lines = where(b, sources) or where(b, crossed.users.values())
    each = [text for x, y in sorted(crossed.users.items()) for text in takes(case, x, y)]

    def undo(edit: Editors) -> None:
        for y, operands in crossed.operands.items():
            edit.b.set_operands(y, operands)
        for x, y in crossed.sliced.items():
            edit.b.attributes[y] = a.attributes[x]

    number = count(len(crossed.users), "operation")
    pairs = sorted(case.diff.match.to_b[x] for x in crossed.users)
    return Finding(
        kind=OTHER_OPERAND,
        title=say(f"{number} take other values", at(lines), ": " if each else "", *each[:1]),
        evidence=(
            Evidence(
                say("what some take in ", A, " others take in ", B, ", made in another turn"),
                tuple(sorted(crossed.users))[:MAX_CITED],
                tuple(pairs)[:MAX_CITED],
                lines,
            ),
            *(Evidence(text) for text in each[1:2]),
        ),
        proof=say("they were given the values that they take in ", A),
        a=frozenset({*crossed.users, *(x for x, _, _ in case.diff.changes)}),
        b=frozenset(y for _, y, _ in case.diff.changes),
        undo=undo,
    )


RULE = Rule(
    name="crossed-operands",
    kinds=(),
    find=find,
    after=("rewired-operations",),
    before=("edited-piece",),
    last_resort=True,
)
