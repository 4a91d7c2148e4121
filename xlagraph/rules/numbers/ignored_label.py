"""The label that a loss ignores: a constant, and a class that is taken out of all classes."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, NamedTuple

from xlagraph.cause.finding import Finding
from xlagraph.cause.model import Evidence
from xlagraph.cause.rule import Rule
from xlagraph.cause.sources import at, where
from xlagraph.facts.training.ignored_labels import IgnoredLabel, ignored_labels
from xlagraph.message import A, B, Change, Code, count, say
from xlagraph.rules.numbers.constant_value import CHANGED, CONSTANT_VALUE

if TYPE_CHECKING:
    from collections.abc import Sequence

    from xlagraph.cause.case import Case, SideView
    from xlagraph.cause.editor import Editors

FIX = say(
    "The label that a loss ignores (",
    Code("ignore_index"),
    " of F.cross_entropy, F.nll_loss and their modules) is a constant of the graph: give it the "
    "same value in every step, and set the labels that are not to count to it on the host.",
)
SHORT_FIX = say("Give the loss the same ", Code("ignore_index"), " everywhere.")


class _Pair(NamedTuple):
    """The label that A ignores, and the one that B does at the same place."""

    a: IgnoredLabel
    b: IgnoredLabel


def find(case: Case) -> list[Finding]:
    """Another label is ignored; one finding for each two labels."""
    a, b = case.diff.a, case.diff.b
    there = {label.number: label for label in ignored_labels(b)}
    groups: dict[tuple[str, str], list[_Pair]] = defaultdict(list)
    for label in ignored_labels(a) if there else ():
        other = there.get(case.a.partners[label.number])
        if other is None or label.number in case.a.claimed or not case.a.matched.live[label.number]:
            continue
        old, new = a.payloads[label.number], b.payloads[other.number]
        if old != new:
            groups[old, new].append(_Pair(label, other))
    return [_finding(case, old, new, pairs) for (old, new), pairs in sorted(groups.items())]


def _finding(case: Case, old: str, new: str, pairs: Sequence[_Pair]) -> Finding:
    b = case.diff.b
    numbers = [pair.b.number for pair in pairs]
    lines = where(b, numbers) or where(b, [u for y in numbers for u in b.users[y]])

    def undo(edit: Editors) -> None:
        for pair in pairs:
            edit.a.payloads[pair.a.number] = new
            edit.a.replace_uses({pair.a.classes: pair.a.every})
            edit.b.replace_uses({pair.b.classes: pair.b.every})

    return Finding(
        kind=CONSTANT_VALUE,
        title=say(
            "the label that the loss ignores is baked into the graph: ",
            Change(old, new, "became"),
            f" at {count(len(pairs), 'place')}",
            at(lines),
        ),
        evidence=(
            Evidence(
                say("labels that differ from it count, and are compared with the classes"),
                tuple(pair.a.number for pair in pairs),
                tuple(numbers),
                lines,
            ),
        ),
        short=say("the label that the loss ignores (ignore_index)", CHANGED),
        fix=FIX,
        short_fix=SHORT_FIX,
        proof=say(
            A, "'s number was set to that of ", B, ", and no class was taken out on either side"
        ),
        a=_claimed(case.a, [pair.a for pair in pairs]),
        b=_claimed(case.b, [pair.b for pair in pairs]),
        undo=undo,
    )


def _claimed(view: SideView, labels: Sequence[IgnoredLabel]) -> frozenset[int]:
    """The numbers, and what takes a class out, with the numbers that serve only that."""
    module = view.module
    found = {i for label in labels for i in (label.number, *label.left_out)}
    pending = [o for i in found for o in module.operands[i]]
    while pending:
        i = pending.pop()
        if i not in found and set(module.users[i]) <= found:
            found.add(i)
            pending += module.operands[i]
    return frozenset(found)


RULE = Rule(
    name="ignored-label",
    kinds=(),
    find=find,
    after=("epsilon",),
    before=("attributes", "written-index"),
)
