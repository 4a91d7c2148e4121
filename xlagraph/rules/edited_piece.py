"""A piece that is another from where it begins to where it ends, whatever pairs within it."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from xlagraph.canon.live import has_effect
from xlagraph.cause.finding import Finding
from xlagraph.cause.model import Evidence
from xlagraph.cause.names import attribute_changes
from xlagraph.cause.rule import Rule
from xlagraph.cause.slices import live_work
from xlagraph.cause.sources import at, operations, where
from xlagraph.facts.pieces import Groups, with_placeless
from xlagraph.facts.telling import opcodes_in_words
from xlagraph.message import A, B, count, say
from xlagraph.message import Change as Became
from xlagraph.rules.replaced_subgraph import REPLACED_SUBGRAPH
from xlagraph.rules.sizes import ATTRIBUTE

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from xlagraph.cause.case import Case, SideView
    from xlagraph.cause.editor import Editors
    from xlagraph.diff import Change
    from xlagraph.graph import Module
    from xlagraph.message import Message, SourceLine

MAX_PART = 0.3
"""Of the smaller module: of more it says nothing that it is computed in another way."""
MAX_CITED = 50
MAX_BEGINNINGS = 4
SPREAD = frozenset({"operands"})
"""What differs of an instruction where it only takes in what differs."""
TELLING = frozenset({"attributes", "opcode", "payload"})
"""What differs of one that is another operation itself; another shape alone follows from those."""


class Region(NamedTuple):
    """What differs on both sides, and the values of it that the rest of both takes in alike."""

    a: set[int]
    b: set[int]
    ends: set[tuple[int, int]]


def find(case: Case) -> list[Finding]:
    """Pieces between values that both have and values that both use alike.

    Instructions within a piece may be paired: two means over other axes have a sum each, and two
    divisors. How they differ then tells where the piece begins, and is believed no further.
    Where all are paired, the rules for what differs of a pair know more.
    """
    region = _region(case)
    if region is None or not region.ends:
        return []
    lone_a, lone_b = set(case.a.lone), set(case.b.lone)
    return [
        _finding(case, part)
        for part in _parts(case, region)
        if not (part.a.isdisjoint(lone_a) and part.b.isdisjoint(lone_b))
    ]


def _region(case: Case) -> Region | None:
    """All that differs, widened until it ends in values of one shape that are used alike."""
    a, b = case.a, case.b
    changes = case.open_changes()
    own = [(x, y) for x, y, fields in changes if not SPREAD.issuperset(fields)]
    region = Region(
        _in_entry(a.module, {*a.open_lone(), *(x for x, _ in own)}),
        _in_entry(b.module, {*b.open_lone(), *(y for _, y in own)}),
        set(),
    )
    limit = MAX_PART * min(live_work(a.module), live_work(b.module))
    taken_in = [(x, y) for x, y, fields in changes if SPREAD.issuperset(fields)]
    while len(region.a) + len(region.b) <= 2 * limit:
        region.ends.clear()
        if not _widened(case, region, taken_in):
            return region if _is_plain(case, region) else None
    return None


def _in_entry(module: Module, instructions: set[int]) -> set[int]:
    """These instructions, or what calls them: all that stands in the entry."""
    entry = module.entry_computation
    found = {i for i in instructions if entry.start <= i < entry.stop}
    left = instructions - found
    while left:
        called = {module.computation_of(i).index for i in left}
        callers = {i for c in called for i in module.callers.get(c, ())}
        found |= {i for i in callers if entry.start <= i < entry.stop}
        left = callers - found
    return found


def _widened(case: Case, region: Region, taken_in: Iterable[tuple[int, int]]) -> bool:
    """Notes where the region ends; True if it had to be widened first."""
    a, b = case.diff.a, case.diff.b
    users = {(x, y) for x, y in taken_in}
    users |= {(x, case.a.partners[x]) for i in region.a for x in a.users[i]}
    users |= {(case.b.partners[y], y) for j in region.b for y in b.users[j]}
    before = len(region.a) + len(region.b)
    roots = (a.entry_computation.root, b.entry_computation.root)
    for x, y in sorted(users):
        if x in region.a or y in region.b or x < 0 or y < 0 or (x, y) == roots:
            if (x in region.a) != (y in region.b) and min(x, y) >= 0:
                region.a.add(x)
                region.b.add(y)
            continue
        _take(case, region, x, y)
    outputs = [(s.a, s.b) for s in case.diff.outputs if s.a is not None and s.b is not None]
    for j, k in (*outputs, *case.replaced_outputs()):
        p, q = a.outputs[j], b.outputs[k]
        if p in region.a or q in region.b or case.a.partners[p] != q:
            _end(case, region, p, q)
    return len(region.a) + len(region.b) > before


def _take(case: Case, region: Region, x: int, y: int) -> None:
    """Ends the region before a pair that takes it in, or takes that pair in."""
    a, b = case.diff.a, case.diff.b
    below_a, below_b = a.operands[x], b.operands[y]
    pairs = list(zip(below_a, below_b, strict=False))
    met = [(p, q) for p, q in pairs if p in region.a or q in region.b]
    if len(below_a) != len(below_b) or not all(_end(case, region, p, q) for p, q in met):
        region.a.add(x)
        region.b.add(y)


def _end(case: Case, region: Region, p: int, q: int) -> bool:
    """Lets two values stand for each other; False if they are of two shapes, or inputs."""
    a, b = case.diff.a, case.diff.b
    if a.shapes[p] != b.shapes[q] or "parameter" in (a.opcodes[p], b.opcodes[q]):
        return False
    region.a.add(p)
    region.b.add(q)
    region.ends.add((p, q))
    return True


def _is_plain(case: Case, region: Region) -> bool:
    """Whether it takes in no input of one side alone, and does nothing but give values."""
    return all(
        view.module.opcodes[i] != "parameter" and not has_effect(view.module, i)
        for view, mine in ((case.a, region.a), (case.b, region.b))
        for i in mine
    )


def _parts(case: Case, region: Region) -> list[Region]:
    """The region as pieces that have neither an instruction nor a line in common."""
    ends = sorted(region.ends)
    groups = Groups(len(ends))
    placed: list[int] = []
    for view, mine in ((case.a, region.a), (case.b, region.b)):
        seen: dict[object, int] = {}
        for k, pair in enumerate(ends):
            below = _below(view, mine, view.mine(pair))[0]
            lines = _lines(view, below, view.mine(pair))
            placed += [k] if lines else []
            for key in (*below, *(line.forward for line in lines)):
                groups.join(seen.setdefault(key, k), k)
    parts = with_placeless(case, groups.members(), placed)
    return [_part(case, region, [ends[k] for k in members]) for members in parts]


def _part(case: Case, region: Region, ends: Sequence[tuple[int, int]]) -> Region:
    """What of a region leads to these of its ends."""
    return Region(
        set().union(*(_below(case.a, region.a, p)[0] for p, _ in ends)),
        set().union(*(_below(case.b, region.b, q)[0] for _, q in ends)),
        set(ends),
    )


def _lines(view: SideView, piece: Iterable[int], end: int) -> tuple[SourceLine, ...]:
    """The lines of a piece; where it has none, of what takes in its end."""
    return where(view.module, piece) or where(view.module, view.module.users[end])


def _below(view: SideView, mine: set[int], end: int) -> tuple[set[int], set[int]]:
    """Of a piece what one of its ends is made of, and what that takes in from outside."""
    members, inputs, stack = set[int](), set[int](), [end]
    while stack:
        i = stack.pop()
        if i not in mine:
            inputs.add(i)
        elif i not in members:
            members.add(i)
            stack.extend(view.module.operands[i])
    return members, inputs


def _inputs(case: Case, part: Region, end: tuple[int, int]) -> list[tuple[int, int]]:
    """The paired values that either side makes this end of."""
    p, q = end
    a, b = case.a.partners, case.b.partners
    found = {(x, a[x]) for x in _below(case.a, part.a, p)[1]}
    found |= {(b[y], y) for y in _below(case.b, part.b, q)[1]}
    return sorted((x, y) for x, y in found if 0 <= x < p and 0 <= y < q)


def _finding(case: Case, part: Region) -> Finding:
    a, b = case.diff.a, case.diff.b
    beginnings = _beginnings(case, part)
    lines = (
        where(b, [change.b for change in beginnings])
        or where(b, part.b)
        or where(a, part.a)
        or where(b, [user for _, q in part.ends for user in b.users[q]])
    )
    ends = {end: _inputs(case, part, end) for end in sorted(part.ends)}
    number = count(len(ends), "value")

    def undo(edit: Editors) -> None:
        for (p, q), inputs in ends.items():
            edit.a.become_undone(p, [x for x, _ in inputs])
            edit.b.become_undone(q, [y for _, y in inputs])

    told = {_told(case, change): (change.a, change.b) for change in reversed(beginnings)}
    options = ["attributes" in change.fields for change in beginnings]
    return Finding(
        kind=ATTRIBUTE if len(told) == 1 and all(options) else REPLACED_SUBGRAPH,
        title=say(
            number,
            operations(b, part.b),
            f" {'is' if len(ends) == 1 else 'are'} computed in another way",
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
        proof=say("each of these values was replaced by one operation on the same inputs"),
        a=frozenset(part.a),
        b=frozenset(part.b),
        undo=undo,
    )


def _beginnings(case: Case, part: Region) -> list[Change]:
    """Changed pairs that take in nothing of the piece that differs: where it begins."""
    found = [
        change
        for change in case.diff.changes
        if change.a in part.a
        and change.b in part.b
        and TELLING.intersection(change.fields)
        and "operands" not in change.fields
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
    return (say(in_a, " in ", A), say(", ", in_b, " in ", B))


RULE = Rule(
    name="edited-piece",
    kinds=(),
    find=find,
    after=("reordered-operands",),
    before=("spread-dtype",),
    last_resort=True,
)
