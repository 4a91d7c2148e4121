"""The same operations on both sides, connected in another way: a norm before or after a layer."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from xlagraph.canon.labels import bare_shape
from xlagraph.cause.editor import is_input
from xlagraph.cause.finding import Finding, Words
from xlagraph.cause.model import Evidence
from xlagraph.cause.names import parameter_name
from xlagraph.cause.rule import Rule
from xlagraph.cause.slices import IDLE, live_work
from xlagraph.cause.sources import at, bare, is_forward, line_of, where
from xlagraph.facts.training.updates import updates
from xlagraph.facts.values.opcodes import ELEMENTWISE
from xlagraph.facts.values.scalars import number_of
from xlagraph.facts.values.telling import PLAIN
from xlagraph.message import EMPTY, A, B, HloName, Operation, count, join, say
from xlagraph.rules.numbers import picked_value
from xlagraph.rules.order.turned_operations import SHORT, SHORT_FIX
from xlagraph.rules.pieces.other_operand import AFTER_UPDATE, OTHER_OPERAND
from xlagraph.rules.pieces.replaced_subgraph import REPLACED_SUBGRAPH

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping, Sequence

    from xlagraph.cause.case import Case, SideView
    from xlagraph.cause.editor import Editors
    from xlagraph.diff import Change
    from xlagraph.graph import Module
    from xlagraph.message import Message, Side, SourceLine

MAX_PART = 0.1
"""Of what the modules compute: where more takes other values little says that they are alike."""
MAX_PART_PAIRED = 0.2
"""The same where the matcher leaves nothing alone, as for a statement that runs for each weight."""
MAX_TOLD = 3
MAX_CITED = 50
CONNECTED = "the same operations are connected in another order"
"""What the titles of such causes begin with."""
FIX = say(
    "The same layers run in another order, as a norm before a block or after it: that is another "
    "model, with other results. Build it in one order, for every step and in every version."
)
MOVED_FIX = say(
    "What is computed of a value is another thing before it is scaled than behind: scale it at one "
    "place, in every step and in every version."
)
TURNED = "and each side begins with the other one"
TURNS_FIX = say(
    "What is computed first in a turn takes the other value as the turn before left it, and what "
    "comes last is what the loop ends with: the results differ, though less from turn to turn. "
    "Compute them in one order, in every step and in every version."
)
SCALINGS = {"divide": "divided", "multiply": "multiplied"}
SCALES = Words(FIX, say("A factor scales another term"), SHORT_FIX)
PICKED = Words(picked_value.FIX, picked_value.SHORT, picked_value.SHORT_FIX)
PASSED = ELEMENTWISE | {"broadcast", "convert", "reshape", "transpose"}
MAX_BEHIND = 64
"""Instructions behind a value in which numbers are sought."""
FEEDS = frozenset({"operands", "layout"})
"""What may differ of what is connected otherwise: an operation has the layout of what it takes."""


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


def find(case: Case) -> list[Finding]:
    """All that differs is which values some operations take; there are the same ones on both sides.

    That concerns the whole module, so what other rules suspect of it does not matter.
    """
    wires = _wires(case)
    if wires is None:
        return []
    renewed = _renewed(case, wires)
    if not renewed or len(renewed) == len(wires.moved):
        return [_finding(case, wires)]
    rest = [y for y in wires.operands if y not in renewed]
    return [_finding(case, _part(wires, rest)), _of_updates(case, _part(wires, renewed), renewed)]


def _renewed(case: Case, wires: Wires) -> dict[int, int]:
    """B's operations that take a tensor where A's take its new value, or back, with the tensor."""
    b = case.b.module
    new = {(b.outputs[k], p): p for p, places in updates(b).items() for k in places}
    new |= {(p, value): p for (value, _), p in new.items()}
    found = {}
    for _, y in wires.moved:
        pairs = [(p, q) for p, q in zip(wires.operands[y], b.operands[y], strict=True) if p != q]
        if all(pair in new for pair in pairs):
            found[y] = new[pairs[0]]
    return found


def _part(wires: Wires, own: Collection[int]) -> Wires:
    """The wires of some of B's operations alone."""
    return wires._replace(
        pairs={x: y for x, y in wires.pairs.items() if y in own},
        operands={y: taken for y, taken in wires.operands.items() if y in own},
        moved=tuple(pair for pair in wires.moved if pair[1] in own),
    )


def _wires(case: Case) -> Wires | None:
    """What is connected in another way; None if that is much, or anything else differs."""
    changes = case.diff.changes
    lone = _by_label(case)
    filled = {change.a: change.b for change in changes if _is_filled(case, change)}
    is_plain = all(change.a in filled or _is_wire(case, change) for change in changes)
    outputs = all(s.a is not None and s.b is not None for s in case.diff.outputs)
    if not changes or lone is None or not (is_plain and outputs):
        return None
    a, b = case.a.module, case.b.module
    root = a.entry_computation.root
    pairs = {x: y for x, y, _ in changes if x != root} | lone
    closed = case.a.matched.closed, case.b.matched.closed
    pairs = {x: y for x, y in pairs.items() if x in filled or not (closed[0][x] and closed[1][y])}
    entries = (a.entry_computation, b.entry_computation)
    inside = all(
        e.start <= i < e.stop for xy in pairs.items() for e, i in zip(entries, xy, strict=True)
    )
    part = MAX_PART if case.a.lone or case.b.lone else MAX_PART_PAIRED
    if not inside or len(pairs) > part * min(live_work(a), live_work(b)):
        return None
    to_b = in_b_of(case, pairs)
    operands = {y: tuple([to_b(o) for o in a.operands[x]]) for x, y in pairs.items()}
    moved = [pair for pair in pairs.items() if operands[pair[1]] != b.operands[pair[1]]]
    picks = _picks(case, pairs)
    is_cut = any("attributes" in change.fields for change in changes)
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
        if case.a.module.opcodes[x] == "slice"
        and _is_of_input(case.a, x) != _is_of_input(case.b, y)
    )


def _is_of_input(view: SideView, i: int) -> bool:
    return is_input(view.module, source(view.module, view.module.operands[i][0]))


def _scale(case: Case, wires: Wires) -> int | None:
    """The number of A by which one of two values is scaled that have changed places, if it is one.

    Each is what an operation of one side takes, and another one of the other side.
    """
    a, b = case.a.module, case.b.module
    to_a = {y: x for x, y in enumerate(case.a.partners) if y >= 0}
    swaps = [
        (p, to_a.get(q, -1))
        for x, y in wires.moved
        for p, q in zip(a.operands[x], b.operands[y], strict=True)
        if case.a.partners[p] != q
    ]
    if len(swaps) != 2 or swaps[0] != swaps[1][::-1]:
        return None
    one, other = (_numbers_in(a, value) for value in swaps[0])
    alone = one.keys() ^ other.keys()
    return {**one, **other}[alone.pop()] if len(alone) == 1 else None


def _numbers_in(module: Module, value: int) -> dict[str, int]:
    """The numbers by which a value is computed element by element, an input or a constant each.

    Ones and zeros are as many as they may be.
    """
    found: dict[str, int] = {}
    front = [value]
    for i in front:  # grows while it is read
        if module.opcodes[i] in ("constant", "parameter"):
            text = module.payloads[i]
            if module.shapes[i].endswith("[]") and (is_input(module, i) or text not in ("0", "1")):
                found[f"{module.opcodes[i]} {text}"] = i
        elif len(front) < MAX_BEHIND and module.opcodes[i] in PASSED:
            front += (o for o in module.operands[i] if o not in front)
    return found


class _Moved(NamedTuple):
    """An operation by a number that stands before others on one side, and behind them else."""

    verb: str
    number: int
    """Of A."""
    first: Side
    """The side where it comes first."""
    others: tuple[str, ...]
    """The opcodes of what takes its result there."""


def _moved(case: Case, wires: Wires) -> _Moved | None:
    """The only operation by a number that takes another value, if others take its result so."""
    a, b = case.a.module, case.b.module
    found = [
        (x, y, number)
        for x, y in wires.moved
        if a.opcodes[x] in SCALINGS and (number := _number_beside(a, x)) is not None
    ]
    if len(found) != 1:
        return None
    ((x, y, number),) = found
    others = [(p, q) for p, q in wires.moved if p != x]
    in_a = [a.opcodes[p] for p, q in others if x in a.operands[p] and y not in b.operands[q]]
    in_b = [b.opcodes[q] for p, q in others if y in b.operands[q] and x not in a.operands[p]]
    if not in_a and not in_b:
        return None
    first = A if len(in_a) >= len(in_b) else B
    names = [one for one in (in_a if first is A else in_b) if one not in PLAIN]
    verb = SCALINGS[a.opcodes[x]]
    return _Moved(verb, number, first, tuple(dict.fromkeys(names)))


def _number_beside(module: Module, i: int) -> int | None:
    """The number that an operation scales a value by."""
    return None if module.shapes[i].endswith("[]") else number_of(module, module.operands[i][-1])


def _told_moved(case: Case, moved: _Moved) -> Message:
    number = parameter_name(case.a, moved.number)
    before = join(map(Operation, moved.others), MAX_TOLD)
    return say(
        *("a value is ", moved.verb, " by ", number, " before ", before, " in "),
        *(moved.first, ", and behind that in ", moved.first.other),
    )


def _by_label(case: Case) -> dict[int, int] | None:
    """What the matcher left alone, put together by what it is; None if one side has more of it."""
    free: dict[tuple[int, ...], list[int]] = defaultdict(list)
    for y in reversed(case.b.lone):
        free[_key(case.b, y)].append(y)
    found = {}
    for x in case.a.lone:
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


def in_b_of(case: Case, pairs: Mapping[int, int]) -> Callable[[int], int]:
    """B's value for one of A's, -1 if it has none; what is made of constants is told by that.

    `pairs`: A's to B's, of those that the matcher left alone, or that are to become as in A.
    """
    a, b = case.a, case.b
    constants = {number: y for y, number in enumerate(b.matched.expressions) if b.matched.closed[y]}

    def in_b(x: int) -> int:
        if a.matched.closed[x]:
            return constants.get(a.matched.expressions[x], pairs.get(x, -1))
        return a.partners[x] if a.partners[x] >= 0 else pairs.get(x, -1)

    return in_b


def takes(case: Case, x: int, y: int) -> list[Message]:
    """What an operation takes on both sides: ``mm takes the result of add (b.py:3) in B``."""
    a, b = case.a.module, case.b.module
    for p, q in zip(a.operands[x], b.operands[y], strict=True):
        if case.a.partners[p] != q and not (
            a.opcodes[source(a, p)] in IDLE or b.opcodes[source(b, q)] in IDLE
        ):
            taken = say(_result(b, q), " in ", B, " and ", _result(a, p), " in ", A)
            return [say(_operation(b, _ahead(b, y)), " takes ", taken)]
    return []


def _ahead(module: Module, i: int) -> int:
    """The first operation that computes something of a value."""
    while module.opcodes[i] in PLAIN and module.users[i]:
        i = min(module.users[i])
    return i


def source(module: Module, i: int) -> int:
    """What a value is another form of."""
    while module.opcodes[i] in PLAIN and module.operands[i]:
        i = module.operands[i][0]
    return i


def _result(module: Module, i: int) -> Message:
    return say("the result of ", _operation(module, source(module, i)))


def _operation(module: Module, i: int) -> Message:
    metadata, lines = module.metadata(i), where(module, [i])
    name = metadata.op_type if metadata else ""
    told = Operation(bare(name)) if name else HloName(module.names[i], module.opcodes[i])
    return say(told, " (", lines[0], ")") if lines else say(told)


def _first_lines(module: Module, instructions: Iterable[int]) -> tuple[SourceLine, ...]:
    """The program's own lines of the forward pass, in the order in which they run."""
    lines = (line for i in instructions if (line := line_of(module, i)) and is_forward(line))
    return tuple(dict.fromkeys(lines))[:MAX_TOLD]


def _of_updates(case: Case, wires: Wires, renewed: Mapping[int, int]) -> Finding:
    """The finding of tensors that are used before their update on one side, behind it else.

    The first of them tells the side; with an average those of its source move the other way.
    """
    found = _finding(case, wires)
    b = case.b.module
    first = min(renewed)
    side = A if renewed[first] in b.operands[first] else B
    tensors = [p for y, p in sorted(renewed.items()) if (p in b.operands[y]) is (side is A)]
    named = list(map(partial(parameter_name, case.b), dict.fromkeys(tensors)))
    used = say(
        side, " uses ", join(named, MAX_TOLD), " after their update, ", side.other, " before"
    )
    one = say(named[0], f" and {len(named) - 1} more" if len(named) > 1 else "")
    short = say(one, AFTER_UPDATE)
    return replace(found, kind=OTHER_OPERAND, title=used, fix=EMPTY, short=short, short_fix=EMPTY)


def _finding(case: Case, wires: Wires) -> Finding:
    b = case.b.module
    moved = wires.moved
    forward = [(x, y) for x, y in moved if (line := line_of(b, y)) and not line.backward_of]
    told = [text for x, y in forward or moved for text in takes(case, x, y)][:MAX_TOLD]
    lines = _first_lines(b, [y for _, y in forward]) or where(b, wires.pairs.values())

    def undo(edit: Editors) -> None:
        for y, operands in wires.operands.items():
            edit.b.set_operands(y, operands)
        for x, y in wires.pairs.items():
            edit.b.shapes[y] = case.a.module.shapes[x]
            if case.a.module.opcodes[x] == "slice":
                edit.b.attributes[y] = case.a.module.attributes[x]

    title, words = _said(case, wires, lines, told)
    number = count(len(moved), "operation")
    return Finding(
        kind=OTHER_OPERAND if wires.picks else REPLACED_SUBGRAPH,
        title=title,
        evidence=(
            Evidence(
                say(
                    A,
                    " and ",
                    B,
                    f" have the same operations and inputs; {number} of ",
                    B,
                    " take other values",
                ),
                tuple(x for x, _ in moved[:MAX_CITED]),
                tuple(y for _, y in moved[:MAX_CITED]),
                lines,
            ),
            *(Evidence(text) for text in told[1:]),
        ),
        fix=words.fix,
        short=words.short,
        short_fix=words.short_fix,
        proof=say(f"{number} of ", B, " were connected as in ", A),
        a=frozenset(wires.pairs),
        b=frozenset(wires.pairs.values()),
        undo=undo,
    )


def _said(
    case: Case, wires: Wires, lines: Sequence[SourceLine], told: Sequence[Message]
) -> tuple[Message, Words]:
    """The title and what else is said, the most that is known of what moved."""
    if wires.picks:
        return _picked(case, wires.picks), PICKED
    scale = _scale(case, wires)
    if scale is not None:
        number = parameter_name(case.a, scale)
        places = say(": one by ", number, " and one without it change places")
        return say("a factor scales another term", at(lines), places), SCALES
    if len(wires.begun) == 1:
        begins = _begins(case, *wires.begun[0])
        return say(begins, at(lines)), Words(TURNS_FIX, begins, SHORT_FIX)
    moved = _moved(case, wires)
    if moved is not None:
        title = _told_moved(case, moved)
        return title, Words(MOVED_FIX, title, SHORT_FIX)
    example = [say(": ", told[0])] if told else []
    return say(CONNECTED, at(lines), *example), Words(FIX, SHORT, SHORT_FIX)


def _begins(case: Case, x: int, y: int) -> Message:
    """What is said of two values computed from each other in turns, from the other one on."""
    filled = zip((A, B), (case.a.module, case.b.module), (x, y), strict=True)
    each = (say(side, " with ", bare_shape(module, i)) for side, module, i in filled)
    return say("two values are computed from each other in turns, ", TURNED, ": ", join(each))


def _picked(case: Case, picks: Sequence[int]) -> Message:
    lines = where(case.a.module, picks)
    given = sum(_is_of_input(case.a, x) for x in picks)
    places = [
        say(count(n, "time"), " ", one, " takes part of what comes in where ", other)
        for n, one, other in ((given, A, B), (len(picks) - given, B, A))
        if n
    ]
    return say(
        "a branch in Python picks one of two values",
        at(lines),
        ": ",
        join((say(one, " takes what it computes") for one in places), between=", and "),
    )


RULE = Rule(
    name="rewired-operations",
    kinds=(),
    find=find,
    after=("reordered-operands",),
    before=("edited-piece",),
    last_resort=True,
)
