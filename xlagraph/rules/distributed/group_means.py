"""Means over other groups of devices: what a mean divides by is the size of its groups."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, NamedTuple

from xlagraph.cause.finding import Finding
from xlagraph.cause.model import Evidence
from xlagraph.cause.names import attribute_changes, differing_keys
from xlagraph.cause.rule import Rule
from xlagraph.cause.sources import at, where
from xlagraph.facts.distributed.group_sizes import group_size, means_over_groups
from xlagraph.facts.values.scalars import SPREADS
from xlagraph.message import A, B, Change, count, say
from xlagraph.rules.shapes.attributes import REPLICA_GROUPS

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from xlagraph.cause.case import Case
    from xlagraph.cause.editor import Editors, ModuleEditor
    from xlagraph.graph import Module
    from xlagraph.message import SourceLine

GROUPS = "replica_groups"


class _Mean(NamedTuple):
    """A mean over a collective's groups, in A and in B."""

    x: int
    y: int
    place: int
    """That of the number that it divides by, among the operands of both."""


def find(case: Case) -> list[Finding]:
    """Collectives over groups of another size whose means divide by it, with these.

    A number that stands for nothing else is a constant of its own, or shared with one that happens
    to be equal: so the mean takes another value on each side, whoever else uses it.
    """
    a, b = case.diff.a, case.diff.b
    groups: dict[tuple[str, str, str, tuple[SourceLine, ...]], list[tuple[int, int]]]
    groups = defaultdict(list)
    for x, y in case.changed_alone("attributes"):
        old, new = a.attributes[x], b.attributes[y]
        if differing_keys(old, new) == {GROUPS}:
            key = (a.opcodes[x], str(old.get(GROUPS)), str(new.get(GROUPS)), where(b, [y]))
            groups[key].append((x, y))
    found = []
    for (opcode, _, _, lines), pairs in sorted(groups.items()):
        means = [mean for x, y in pairs for mean in _means(case, x, y)]
        if means:
            found.append(_finding(case, opcode, lines, pairs, means))
    return found


def _means(case: Case, x: int, y: int) -> Iterator[_Mean]:
    a, b = case.diff.a, case.diff.b
    if group_size(a, x) == group_size(b, y):
        return
    known = {(one.i, one.place) for one in means_over_groups(b, y)}
    for one in means_over_groups(a, x):
        partner = case.a.partners[one.i]
        if (partner, one.place) in known:
            yield _Mean(one.i, partner, one.place)


def _finding(
    case: Case,
    opcode: str,
    lines: tuple[SourceLine, ...],
    pairs: Sequence[tuple[int, int]],
    means: Sequence[_Mean],
) -> Finding:
    a, b = case.diff.a, case.diff.b
    x, y = pairs[0]
    changes = attribute_changes(a.attributes[x], b.attributes[y])
    sizes = Change(str(group_size(a, x)), str(group_size(b, y)))
    own_a = {one.x for one in means} | _numbers(a, {one.x for one in means})
    own_b = {one.y for one in means} | _numbers(b, {one.y for one in means})
    number = count(len(pairs), opcode)

    def undo(edit: Editors) -> None:
        for p, q in pairs:
            edit.a.attributes[p] = b.attributes[q]
        for mean in means:
            _without_number(edit.a, mean.x, mean.place)
            _without_number(edit.b, mean.y, mean.place)

    return Finding(
        kind=REPLICA_GROUPS,
        title=say(f"replica groups of {number} differs: ", changes, at(lines)),
        evidence=(
            Evidence(changes, tuple(p for p, _ in pairs), tuple(q for _, q in pairs), lines),
            Evidence(
                say(f"{count(len(means), 'mean')} over them divide by their size: ", sizes),
                tuple(sorted(own_a))[:50],
                tuple(sorted(own_b))[:50],
            ),
        ),
        proof=say(
            A,
            f"'s {opcode} was given ",
            B,
            "'s attributes, and the sizes of groups that means divide by were left out in both",
        ),
        a=frozenset(own_a.union(p for p, _ in pairs)),
        b=frozenset(own_b.union(q for _, q in pairs)),
        undo=undo,
    )


def _without_number(editor: ModuleEditor, i: int, place: int) -> None:
    editor.set_operand(i, place, editor.operands[i][1 - place])


def _numbers(module: Module, users: set[int]) -> set[int]:
    """The constants, and what spreads them, that these alone use."""
    found: set[int] = set()
    stack = sorted(users)
    for i in stack:  # grows while it is read
        for o in module.operands[i]:
            is_number = module.opcodes[o] in SPREADS | {"constant"}
            if is_number and o not in found and found | users >= set(module.users[o]):
                found.add(o)
                stack.append(o)
    return found


RULE = Rule(
    name="group-means",
    kinds=(),
    find=find,
    after=("written-index",),
    before=("constant-value",),
    rematches=True,
)
