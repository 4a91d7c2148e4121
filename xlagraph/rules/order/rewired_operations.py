"""The same operations on both sides, connected in another way: a norm before or after a layer."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from xlagraph.canon.labels import bare_shape
from xlagraph.cause.editor import is_input
from xlagraph.cause.finding import Finding, Words
from xlagraph.cause.model import Evidence
from xlagraph.cause.names import parameter_name
from xlagraph.cause.rule import Rule
from xlagraph.cause.slices import IDLE
from xlagraph.cause.sources import at, is_forward, line_of, operation_name, where
from xlagraph.facts.pieces.wires import in_other, is_of_input, scopes, source, wires_of
from xlagraph.facts.training.updates import updates
from xlagraph.facts.values.opcodes import ELEMENTWISE
from xlagraph.facts.values.scalars import number_of
from xlagraph.facts.values.telling import PLAIN
from xlagraph.message import EMPTY, A, B, Code, HloName, Operation, count, join, say
from xlagraph.rules.numbers import picked_value
from xlagraph.rules.order.turned_operations import SHORT, SHORT_FIX
from xlagraph.rules.pieces.other_operand import AFTER_UPDATE, OTHER_OPERAND
from xlagraph.rules.pieces.replaced_subgraph import REPLACED_SUBGRAPH

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Sequence

    from xlagraph.cause.case import Case
    from xlagraph.cause.editor import Editors
    from xlagraph.facts.pieces.wires import Wires
    from xlagraph.graph import Module
    from xlagraph.message import Message, Side, SourceLine
    from xlagraph.tensors import Tensor

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
LAYERS_FIX = say(
    "Python picks which layers run (LayerDrop, stochastic depth), and each choice is a graph of "
    "its own: run every layer in every step, and multiply what it adds by 0 or 1, drawn on the "
    "device. Models of transformers draw on the host where their configuration has a layerdrop: "
    "set it to 0."
)
LAYERS_SHORT_FIX = say("Run every layer; in transformers set the configuration's layerdrop to 0.")
SEVERAL = 3
"""So many weights of one layer are taken in place of another one's where that runs instead."""
_LAYER = re.compile(r"((?:.*\.)?\w+\.)(\d+)(\..*)?")
"""The path of a module in a list, with its number there."""
SCALINGS = {"divide": "divided", "multiply": "multiplied"}
SCALES = Words(FIX, say("A factor scales another term"), SHORT_FIX)
PICKED = Words(picked_value.FIX, picked_value.SHORT, picked_value.SHORT_FIX)
PASSED = ELEMENTWISE | {"broadcast", "convert", "reshape", "transpose"}
MAX_BEHIND = 64
"""Instructions behind a value in which numbers are sought."""


def find(case: Case) -> list[Finding]:
    """All that differs is which values some operations take; there are the same ones on both sides.

    That is so of the whole module, or of all that a loop or a function computes; it concerns the
    whole of it, so what other rules suspect there does not matter.
    """
    found = []
    for scope in scopes(case):
        wires = wires_of(case, scope)
        renewed = _renewed(case, wires) if wires else {}
        if wires and (not renewed or len(renewed) == len(wires.moved)):
            found.append(_finding(case, wires))
        elif wires:
            rest = [y for y in wires.operands if y not in renewed]
            updated = _of_updates(case, _part(wires, renewed), renewed)
            found += [_finding(case, _part(wires, rest)), updated]
    return found


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


def _result(module: Module, i: int) -> Message:
    return say("the result of ", _operation(module, source(module, i)))


def _operation(module: Module, i: int) -> Message:
    name, lines = operation_name(module, i), where(module, [i])
    told = Operation(name) if name else HloName(module.names[i], module.opcodes[i])
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
        backward = _of_a(case, wires)
        for x, operands in backward.items():
            edit.a.set_operands(x, operands)
        for y, operands in () if backward else wires.operands.items():
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


def _of_a(case: Case, wires: Wires) -> dict[int, tuple[int, ...]]:
    """What A's take where they are connected as in B, if these alone stand in an order to do so.

    Operands stand before what takes them in a module's text.
    """
    b = case.b.module
    if all(o < y for y, taken in wires.operands.items() for o in taken):
        return {}
    pairs = {y: x for x, y in wires.pairs.items()}
    to_a = in_other(case.b, case.a, pairs)
    found = {x: tuple([to_a(o) for o in b.operands[y]]) for x, y in wires.pairs.items()}
    return found if all(0 <= o < x for x, taken in found.items() for o in taken) else {}


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
    if layers := _other_layers(case, wires):
        (one, in_a), (other, in_b) = zip(map(Code, layers), (A, B), strict=True)
        title = say(
            "other layers run: ", one, " in ", in_a, ", and in its place ", other, " in ", in_b
        )
        short = say("other layers run in some steps: ", one, " or ", other)
        return say(title, at(lines)), Words(LAYERS_FIX, short, LAYERS_SHORT_FIX)
    moved = _moved(case, wires)
    if moved is not None:
        title = _told_moved(case, moved)
        return title, Words(MOVED_FIX, title, SHORT_FIX)
    example = [say(": ", told[0])] if told else []
    return say(CONNECTED, at(lines), *example), Words(FIX, SHORT, SHORT_FIX)


def _other_layers(case: Case, wires: Wires) -> tuple[str, str] | None:
    """The layers of which A runs one and B another one, as their weights by their names tell."""
    a, b = case.a.module, case.b.module
    taken = (
        (case.a.input_tensor(source(a, p)), case.b.input_tensor(source(b, q)))
        for x, y in wires.moved
        for p, q in zip(a.operands[x], b.operands[y], strict=True)
        if is_input(a, source(a, p)) and is_input(b, source(b, q))
    )
    found = Counter(pair for one, other in taken if one and other and (pair := _places(one, other)))
    return next((pair for pair, number in found.most_common(1) if number >= SEVERAL), None)


def _places(one: Tensor, other: Tensor) -> tuple[str, str] | None:
    """The modules of a list that own two tensors which are called the same there."""
    mine, theirs = _LAYER.fullmatch(one.owner), _LAYER.fullmatch(other.owner)
    if one.name != other.name or not mine or not theirs or mine[1] != theirs[1]:
        return None
    if mine[3] != theirs[3] or mine[2] == theirs[2]:
        return None
    return mine[1] + mine[2], theirs[1] + theirs[2]


def _begins(case: Case, x: int, y: int) -> Message:
    """What is said of two values computed from each other in turns, from the other one on."""
    filled = zip((A, B), (case.a.module, case.b.module), (x, y), strict=True)
    each = (say(side, " with ", bare_shape(module, i)) for side, module, i in filled)
    return say("two values are computed from each other in turns, ", TURNED, ": ", join(each))


def _picked(case: Case, picks: Sequence[int]) -> Message:
    lines = where(case.a.module, picks)
    given = sum(is_of_input(case.a, x) for x in picks)
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
