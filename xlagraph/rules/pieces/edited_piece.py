"""A piece that is another from where it begins to where it ends, whatever pairs within it."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from xlagraph.cause.finding import Finding
from xlagraph.cause.model import Evidence
from xlagraph.cause.names import attribute_changes
from xlagraph.cause.rule import Rule
from xlagraph.cause.slices import called_only_by
from xlagraph.cause.sources import at, is_forward, operations, where
from xlagraph.facts.pieces.pieces import OUTPUT
from xlagraph.facts.pieces.regions import SPREAD, below_of, parts_of, region_of
from xlagraph.facts.training.further_gradients import adds_gradients, flows_further, is_backward
from xlagraph.facts.training.updates import pairs_after_update
from xlagraph.facts.values.telling import computed_with, opcodes_in_words
from xlagraph.message import A, B, count, say
from xlagraph.message import Change as Became
from xlagraph.rules.pieces.replaced_subgraph import REPLACED_SUBGRAPH
from xlagraph.rules.shapes.sizes import ATTRIBUTE
from xlagraph.rules.training.longer_backward import LONGER_BACKWARD

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from xlagraph.cause.case import Case
    from xlagraph.cause.editor import Editors
    from xlagraph.diff import Change
    from xlagraph.facts.pieces.regions import Region
    from xlagraph.graph import Module
    from xlagraph.message import Message, SourceLine

MAX_CITED = 50
MAX_BEGINNINGS = 4
MUCH = {0: 0, 1: 2, 2: 4}
"""So many times as much as the other one computes is a side's own, if so many have numbers."""
TELLING = frozenset({"attributes", "opcode", "payload"})
"""What differs of one that is another operation itself; another shape alone follows from those."""


def find(case: Case) -> list[Finding]:
    """Pieces between values that both have and values that both use alike.

    Instructions within a piece may be paired: two means over other axes have a sum each, and two
    divisors. How they differ then tells where the piece begins, and is believed no further.
    Where all are paired, the rules for what differs of a pair know more. What takes a tensor before
    its update on one side and behind it on the other is an edit of its own.
    """
    region = region_of(case, pairs_after_update(case))
    if region is None:
        return []
    lone_a, lone_b = set(case.a.lone), set(case.b.lone)
    parts = [
        part
        for part in parts_of(case, region)
        if not (part.a.isdisjoint(lone_a) and part.b.isdisjoint(lone_b))
    ]
    if any(_hands_in_otherwise(case, part) for part in parts):
        return []
    return [_further_gradients(case, region, part) or _finding(case, part) for part in parts]


def _hands_in_otherwise(case: Case, part: Region) -> bool:
    """Whether Python hands in numbers for a piece of which both sides compute much by themselves.

    So it does in a program that is written anew; what one side computes far more of has its own
    numbers, and the other may have some of its own too.
    """
    sides = ((case.a, part.a), (case.b, part.b))
    numbered = sum(any(view.module.opcodes[i] == "parameter" for i in own) for view, own in sides)
    less, more = sorted(len(own.intersection(view.lone)) for view, own in sides)
    return less * MUCH[numbered] > more


def _inputs(case: Case, part: Region, p: int, q: int) -> list[tuple[int, int]]:
    """The paired values that either side makes one of its values of."""
    a, b = case.a.partners, case.b.partners
    found = {(x, a[x]) for x in below_of(case.a, part.a, p)[1]}
    found |= {(b[y], y) for y in below_of(case.b, part.b, q)[1]}
    return sorted((x, y) for x, y in found if 0 <= x < p and 0 <= y < q)


def _claimed(module: Module, piece: set[int], users: Iterable[int]) -> frozenset[int]:
    """A piece with what it calls, and what takes it in."""
    return frozenset(piece).union(called_only_by(module, piece), users)


def _undo(case: Case, part: Region) -> Callable[[Editors], None]:
    """Replaces what both compute by one operation, and leaves out what one side alone computes."""
    pairs = sorted({(e.p, e.q) for e in part.edges if e.p in part.a and e.q in part.b})
    replaced = [(p, q, _inputs(case, part, p, q)) for p, q in pairs]
    to_a, to_b = case.b.partners, case.a.partners

    def undo(edit: Editors) -> None:
        for p, q, inputs in replaced:
            edit.a.become_undone(p, [x for x, _ in inputs])
            edit.b.become_undone(q, [y for _, y in inputs])
            edit.b.shapes[q] = edit.a.shapes[p]
        for edge in part.edges:
            if edge.q not in part.b:
                edit.a.set_operand(edge.x, edge.place, to_a[edge.q])
            elif edge.p not in part.a:
                edit.b.set_operand(edge.y, edge.place, to_b[edge.p])

    return undo


def _finding(case: Case, part: Region) -> Finding:
    a, b = case.diff.a, case.diff.b
    beginnings = _beginnings(case, part)
    lines = (
        where(b, [change.b for change in beginnings])
        or where(b, part.b)
        or where(a, part.a)
        or where(b, {e.y for e in part.edges})
    )
    values = len({(e.p, e.q) for e in part.edges})
    number = count(values, "value")
    told = {_told(case, change): (change.a, change.b) for change in reversed(beginnings)}
    options = ["attributes" in change.fields for change in beginnings]
    is_option = len(told) == 1 and all(options)
    return Finding(
        kind=ATTRIBUTE if is_option else REPLACED_SUBGRAPH,
        title=say(
            number,
            operations(b, part.b),
            f" {'is' if values == 1 else 'are'} computed in another way",
            at(lines),
            ": ",
            *(tuple(told)[-1:] or _both(case, part)),
        ),
        evidence=(
            Evidence(
                say("what differs lies between values that both have and ", number, " used alike"),
                tuple(sorted(part.a))[:MAX_CITED],
                tuple(sorted(part.b))[:MAX_CITED],
                lines,
            ),
            *(Evidence(text, (x,), (y,), where(b, [y])) for text, (x, y) in reversed(told.items())),
        ),
        proof=say(
            "each of these values was replaced by one operation on the same inputs, or left out "
            "where one side alone computes it"
        ),
        short=say() if is_option else computed_with(case.diff, part.a, part.b),
        a=_claimed(a, part.a, (e.x for e in part.edges if e.place != OUTPUT)),
        b=_claimed(b, part.b, (e.y for e in part.edges if e.place != OUTPUT)),
        undo=_undo(case, part),
    )


def _further_gradients(case: Case, region: Region, part: Region) -> Finding | None:
    """The finding, if one side alone sends gradients through values that both compute."""
    view = flows_further(case, part)
    is_named = view is not None
    view = view or adds_gradients(case, region, part)
    if view is None:
        return None
    module, mine = view.module, view.mine((part.a, part.b))
    lines = where(module, (i for i in mine if not is_backward(module, i))) or where(module, mine)
    lines = lines or _taken_at(module, mine)
    own = [i for i in mine if is_backward(module, i)] if is_named else mine
    number = count(len(own), "instruction")
    less = B if view.is_a else A
    plain = _finding(case, part)
    made = (f": the backward pass goes on there with {number} of its own, and is cut off in ", less)
    return replace(
        plain,
        kind=LONGER_BACKWARD,
        title=say("gradients flow further in ", view.side, " than in ", less, at(lines), *made),
        evidence=(replace(plain.evidence[0], sources=lines), *plain.evidence[1:]),
        short=say(),
    )


def _taken_at(module: Module, piece: set[int]) -> tuple[SourceLine, ...]:
    """The program's own lines of the values of the forward pass that derivatives take in."""
    below = {o for i in piece for o in module.operands[i]} - piece
    found = (line for line in where(module, sorted(below, reverse=True)) if is_forward(line))
    return tuple(line for line in found if not line.is_library)


def _beginnings(case: Case, part: Region) -> list[Change]:
    """Changed pairs that take in nothing of the piece that differs: where it begins."""
    found = [
        change
        for change in case.diff.changes
        if change.a in part.a
        and change.b in part.b
        and TELLING.intersection(change.fields)
        and SPREAD.isdisjoint(change.fields)
        and part.a.isdisjoint(case.diff.a.operands[change.a])
    ]
    return sorted(found)[:MAX_BEGINNINGS]


def _told(case: Case, change: Change) -> Message:
    """What differs of a pair, in a few words."""
    a, b = case.diff.a, case.diff.b
    x, y, fields = change
    if "opcode" in fields:
        return say("the operation ", Became(a.opcodes[x], b.opcodes[y], "became"))
    if "attributes" in fields:
        return say(a.opcodes[x], " has ", attribute_changes(a.attributes[x], b.attributes[y]))
    return say("the constant ", Became(a.payloads[x], b.payloads[y], "became"))


def _both(case: Case, part: Region) -> Sequence[Message]:
    a, b = case.diff.a, case.diff.b
    in_a, in_b = opcodes_in_words(a, part.a, b), opcodes_in_words(b, part.b, a)
    if not (part.a and part.b):
        return (say(in_a or in_b, " in ", A if part.a else B, " only"),)
    return (say(in_a, " in ", A), say(", ", in_b, " in ", B))


RULE = Rule(
    name="edited-piece",
    kinds=(),
    find=find,
    after=("reordered-operands",),
    before=("spread-dtype",),
    last_resort=True,
)
