"""A list of values that is joined and has more members on one side: results kept over steps."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, NamedTuple

from xlagraph.canon.labels import bare_shape
from xlagraph.cause.finding import Finding
from xlagraph.cause.model import Evidence
from xlagraph.cause.names import short_shape
from xlagraph.cause.rule import Rule
from xlagraph.cause.sources import at, where
from xlagraph.facts.pieces.pieces import inputs_of, piece_of
from xlagraph.message import A, B, Code, HloName, count, say
from xlagraph.rules.inputs.added_input import ADDED_INPUT

if TYPE_CHECKING:
    from collections.abc import Sequence

    from xlagraph.cause.case import Case, SideView
    from xlagraph.cause.editor import Editors
    from xlagraph.message import Message

LISTED = "a list of tensors that is joined has "
"""What the short form of a longer list begins with."""
MIN_JOINED = 2
"""Members that both sides have: fewer are no list."""
SHORT_FIX = say("Bound the list, or empty it in each step.")
FIX = say(
    "Python keeps tensors in a list and joins them (",
    Code("torch.cat"),
    ", ",
    Code("torch.stack"),
    "): each length of it is a graph of its own. Sum up on the device, move each tensor to the "
    "host before it is kept, or write them into a tensor of full size with index_copy_, at a "
    "position that is a tensor; where the list holds the parts of one step, keep their number.",
)


class _Join(NamedTuple):
    """Two concatenations, of which one takes values more."""

    x: int
    y: int
    more: SideView
    extra: tuple[int, ...]
    """Operands that the longer one takes more."""


def find(case: Case) -> list[Finding]:
    """Concatenations of which one takes all that the other does, and more of the same shape."""
    joins = [
        join
        for x, y, fields in case.open_changes()
        if "operands" in fields and case.a.module.opcodes[x] == "concatenate"
        if (join := _join(case, x, y)) is not None
    ]
    return [_finding(case, joins)] if joins else []


def _join(case: Case, x: int, y: int) -> _Join | None:
    a, b = case.a, case.b
    if b.module.opcodes[y] != "concatenate":
        return None
    in_a, in_b = a.module.operands[x], b.module.operands[y]
    more, many, less, few = (a, in_a, b, in_b) if len(in_a) > len(in_b) else (b, in_b, a, in_a)
    extra = Counter(many) - Counter(less.partners[i] for i in few)
    shapes = {bare_shape(view.module, i) for view, own in ((more, many), (less, few)) for i in own}
    is_longer = len(few) < len(many) and extra.total() == len(many) - len(few)
    if not is_longer or len(few) < MIN_JOINED or len(shapes) > 1:
        return None
    return _Join(x, y, more, tuple(extra))


def _finding(case: Case, joins: Sequence[_Join]) -> Finding:
    a, b = case.a, case.b
    own = {view.side: set[int]() for view in (a, b)}
    for join in joins:
        own[join.more.side] |= piece_of(join.more, join.extra)
    xs, ys = {one.x for one in joins}, {one.y for one in joins}
    lines = where(b.module, ys) or where(a.module, xs)
    first = joins[0]
    numbers = [len(view.module.operands[i]) for view, i in ((a, first.x), (b, first.y))]
    value = first.more.module.operands[first.x if first.more.is_a else first.y][0]
    shape = short_shape(first.more.module, value)
    told = say(LISTED, f"{numbers[0]} in ", A, f" and {numbers[1]} in ", B)

    def undo(edit: Editors) -> None:
        for join in joins:
            taken = inputs_of(case, {join.x}, {join.y})
            edit.a.become_undone(join.x, [p for p, _ in taken])
            edit.b.become_undone(join.y, [q for _, q in taken])

    return Finding(
        kind=ADDED_INPUT,
        title=say(told, f" (each {shape})", at(lines)),
        evidence=tuple(_evidence(case, join) for join in joins),
        fix=FIX,
        short=told,
        short_fix=SHORT_FIX,
        proof=say("both were replaced by one operation on the values that both join"),
        a=frozenset(xs | own[A]),
        b=frozenset(ys | own[B]),
        undo=undo,
    )


def _evidence(case: Case, join: _Join) -> Evidence:
    a, b = case.a.module, case.b.module
    more, i = join.more, join.x if join.more.is_a else join.y
    number = count(len(join.extra), "value")
    name: Message = say(HloName(more.module.names[i], more.module.opcodes[i]))
    lines = where(b, [join.y]) or where(a, [join.x])
    return Evidence(say(name, f" takes {number} more in ", more.side), (join.x,), (join.y,), lines)


RULE = Rule(
    name="longer-join",
    kinds=(),
    find=find,
    after=("longer-history",),
    before=("added-input",),
)
