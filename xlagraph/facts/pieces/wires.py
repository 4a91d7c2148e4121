"""Operations that are the same on both sides, and which values they take there."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, NamedTuple

from xlagraph.cause.editor import is_input
from xlagraph.cause.slices import live_work
from xlagraph.facts.values.telling import PLAIN

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from xlagraph.cause.case import Case, SideView
    from xlagraph.diff import Change
    from xlagraph.graph import Module

MAX_PART = 0.1
"""Of what the modules compute: where more takes other values little says that they are alike."""
MAX_PART_PAIRED = 0.2
"""The same where the matcher leaves nothing alone, as for a statement that runs for each weight."""
FEEDS = frozenset({"operands", "layout"})
"""What may differ of what is connected otherwise: an operation has the layout of what it takes."""


class Scope(NamedTuple):
    """What differs in one computation."""

    changes: list[Change]
    a: list[int]
    """What A alone has there."""
    b: list[int]


class Wires(NamedTuple):
    """Operations of one label on both sides that take other values."""

    pairs: Mapping[int, int]
    """A's to B's, those included that the matcher left alone."""
    operands: Mapping[int, tuple[int, ...]]
    """For each of B's what it takes where it is connected as in A, by B's numbers."""
    moved: tuple[tuple[int, int], ...]
    """The pairs that take other values, by B's numbers."""
    picks: tuple[int, ...]
    """Those of A that cut a part out of an input where B's cut one of what it computes, or back."""
    begun: tuple[tuple[int, int], ...] = ()
    """What one number fills in another size on each side, A's and B's."""


def scopes(case: Case) -> list[Scope]:
    """What differs, by the computations of A in which it stands, the entry computation first."""
    a, b = case.a.module, case.b.module
    to_a = {y: x for x, y in case.diff.match.computations.items()}
    found: dict[int, Scope] = defaultdict(lambda: Scope([], [], []))
    for change in case.diff.changes:
        found[a.computation_of(change.a).index].changes.append(change)
    for x in case.a.lone:
        found[a.computation_of(x).index].a.append(x)
    for y in case.b.lone:
        found[to_a.get(b.computation_of(y).index, -1)].b.append(y)
    entry = a.entry_computation.index
    return [found[k] for k in sorted(found, key=lambda k: (k != entry, k)) if found[k].changes]


def wires_of(case: Case, scope: Scope) -> Wires | None:
    """What is connected in another way; None if that is much, or anything else differs there."""
    lone = _by_label(case, scope)
    filled = {change.a: change.b for change in scope.changes if _is_filled(case, change)}
    is_plain = all(change.a in filled or _is_wire(case, change) for change in scope.changes)
    outputs = all(s.a is not None and s.b is not None for s in case.diff.outputs)
    if lone is None or not (is_plain and outputs):
        return None
    a, b = case.a.module, case.b.module
    root = a.entry_computation.root
    pairs = {x: y for x, y, _ in scope.changes if x != root} | lone
    closed = case.a.matched.closed, case.b.matched.closed
    pairs = {x: y for x, y in pairs.items() if x in filled or not (closed[0][x] and closed[1][y])}
    part = MAX_PART if case.a.lone or case.b.lone else MAX_PART_PAIRED
    if len(pairs) > part * min(live_work(a), live_work(b)):
        return None
    to_b = in_other(case.a, case.b, pairs)
    operands = {y: tuple([to_b(o) for o in a.operands[x]]) for x, y in pairs.items()}
    moved = [pair for pair in pairs.items() if operands[pair[1]] != b.operands[pair[1]]]
    picks = _picks(case, pairs)
    is_cut = any("attributes" in change.fields for change in scope.changes)
    if any(-1 in taken for taken in operands.values()) or (is_cut and not picks):
        return None
    begun = tuple(filled.items())
    return Wires(pairs, operands, tuple(sorted(moved, key=lambda pair: pair[1])), picks, begun)


def _is_wire(case: Case, change: Change) -> bool:
    """Whether only what is taken in differs; what cuts a part out of it may cut another one."""
    own = FEEDS | {"attributes"} if case.a.module.opcodes[change.a] == "slice" else FEEDS
    return own.issuperset(change.fields)


def _is_filled(case: Case, change: Change) -> bool:
    """Whether a change is another size of what one number fills: what a loop begins with."""
    return change.fields == ("shape",) and all(
        view.module.opcodes[i] == "broadcast" and view.matched.closed[i]
        for view, i in ((case.a, change.a), (case.b, change.b))
    )


def _picks(case: Case, pairs: Mapping[int, int]) -> tuple[int, ...]:
    return tuple(
        x
        for x, y in pairs.items()
        if case.a.module.opcodes[x] == "slice" and is_of_input(case.a, x) != is_of_input(case.b, y)
    )


def is_of_input(view: SideView, i: int) -> bool:
    """Whether an operation takes what comes in, in any form."""
    return is_input(view.module, source(view.module, view.module.operands[i][0]))


def _by_label(case: Case, scope: Scope) -> dict[int, int] | None:
    """What the matcher left alone, put together by what it is; None if one side has more of it."""
    free: dict[tuple[int, ...], list[int]] = defaultdict(list)
    for y in reversed(scope.b):
        free[_key(case.b, y)].append(y)
    found = {}
    for x in scope.a:
        alike = free[_key(case.a, x)]
        if not alike or case.a.module.opcodes[x] == "parameter":
            return None
        found[x] = alike.pop()
    return None if any(free.values()) else found


def _key(view: SideView, i: int) -> tuple[int, ...]:
    """What an instruction is and what it calls, whatever it takes."""
    matched = view.matched
    called = (matched.computations[c] for c in view.module.callees.get(i, ()))
    return (matched.labels[i], *called)


def in_other(one: SideView, other: SideView, pairs: Mapping[int, int]) -> Callable[[int], int]:
    """The other side's value for one of one side's, -1 if it has none.

    What is made of constants is told by that. `pairs`: one side's to the other's, of those that the
    matcher left alone, or that are to become as on the other side.
    """
    matched = other.matched
    constants = {number: y for y, number in enumerate(matched.expressions) if matched.closed[y]}

    def found(x: int) -> int:
        mate, number = one.partners[x], one.matched.expressions[x]
        if one.matched.closed[x] and (mate < 0 or matched.expressions[mate] != number):
            return constants.get(number, pairs.get(x, -1))
        return mate if mate >= 0 else pairs.get(x, -1)

    return found


def source(module: Module, i: int) -> int:
    """What a value is another form of."""
    while module.opcodes[i] in PLAIN and module.operands[i]:
        i = module.operands[i][0]
    return i
