"""Causes that are an operation at another place: a mask before a softmax, or behind it."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from xlagraph.cause.model import Evidence
from xlagraph.cause.sources import is_forward, operation_name, where
from xlagraph.explain.names.merged import BRANCHES, merged
from xlagraph.facts.pieces.moved import moved_operations, takers
from xlagraph.facts.values.notation import names_in
from xlagraph.facts.values.scalars import number_of
from xlagraph.facts.values.telling import COMMON, PLAIN
from xlagraph.message import Operation, count, join, say
from xlagraph.rules.inputs.second_input import SECOND_INPUT
from xlagraph.rules.numbers.constant_value import CONSTANT_VALUE
from xlagraph.rules.numbers.scalar_argument import SPECIAL_SCALAR
from xlagraph.rules.order.turned_operations import SHORT as TURNED_SHORT
from xlagraph.rules.pieces.replaced_subgraph import REPLACED_SUBGRAPH

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Sequence

    from xlagraph.cause.model import Cause
    from xlagraph.diff import Diff
    from xlagraph.facts.pieces.moved import Moved
    from xlagraph.graph import Module
    from xlagraph.message import Message

FIX = say(
    "What it is computed of is another thing before the others than behind them, and the results "
    "differ: compute them in one order, in every step and in every version."
)
SHORT_FIX = say("Compute them in one order in both versions.")
FUNCTIONS: Mapping[frozenset[tuple[str, int]], str] = {
    frozenset(Counter(opcodes.split()).items()): name
    for name, opcodes in (
        ("softmax", "reduce subtract exponential reduce divide"),
        ("log_softmax", "reduce subtract exponential reduce log subtract"),
    )
}
"""What is told by one name, by how often each opcode is in it."""
CALLED = {"select": "select (where)"}
NUMBERS = (CONSTANT_VALUE, SECOND_INPUT, SPECIAL_SCALAR)
"""What a number is told as that is another one: an operation that moved may take one, too."""
MAX_OTHERS = 3
COMPUTED = "a value is computed with"
"""How what is told begins of which the operations are known."""


def with_moved(diff: Diff, causes: Sequence[Cause]) -> list[Cause]:
    """The causes, those that are nothing but an operation at another place as that.

    What stands in its old place and in its new one is told as two pieces, and a number that it
    takes there as a third cause.
    """
    pieces = [c for c in causes if c.kind in BRANCHES and c.proved and _is_open(c)]
    if not pieces or (len(pieces) == 1 and _says_all(pieces[0])):
        return list(causes)
    sides = zip(*((cause.a, cause.b) for cause in pieces), strict=True)
    found = moved_operations(diff, *(frozenset[int]().union(*side) for side in sides))
    is_one = len({(one.first, diff.a.opcodes[one.a]) for one in found}) == 1
    if not is_one or _is_arithmetic(diff.a, found[0]):
        return list(causes)
    regions = (
        _region(diff.a, ((one.a, one.others_a) for one in found)),
        _region(diff.b, ((one.b, one.others_b) for one in found)),
    )
    parts = [cause for cause in causes if _is_part(diff, cause, regions)]
    main = next((cause for cause in pieces if cause in parts), None)
    if main is None:
        return list(causes)
    short, cited = _told(diff, found)
    return merged(
        causes,
        main,
        [main, *(cause for cause in parts if cause is not main)],
        [cited],
        title=short.sentence if len(parts) > 1 else main.title,
        short=short,
        fix=FIX,
        short_fix=SHORT_FIX,
        place=main.place.at(next(iter(cited.sources), None)),
    )


def _is_open(cause: Cause) -> bool:
    """Whether nothing is said of a cause but that a value is computed otherwise, or a formula."""
    short = str(cause.in_short)
    return short == str(TURNED_SHORT) or short.startswith((str(REPLACED_SUBGRAPH.short), COMPUTED))


def _is_arithmetic(module: Module, moved: Moved) -> bool:
    """Whether sums and products moved past each other: formulas, and what they take, tell more."""
    return all(module.opcodes[i] in COMMON | PLAIN for i in (moved.a, *moved.others_a))


def _says_all(cause: Cause) -> bool:
    """Whether formulas of the same values tell it."""
    one, *others = cause.in_short.code or ("",)
    return bool(others) and names_in(one) == names_in(others[0])


def _told(diff: Diff, found: Sequence[Moved]) -> tuple[Message, Evidence]:
    """What moved and what it moved past, in short, and with where it stands."""
    one, first = found[0], found[0].first
    others = (
        _function(diff.a, one.others_a) or _operations(diff.a, one.others_a),
        f" in {count(len(found), 'place')}" if len(found) > 1 else "",
    )
    short = say(
        *(_named(diff.a, one.a), " comes before ", *others, " in ", first),
        *(", and behind that in ", first.other),
    )
    own = [i for each in found for i in (each.b, *each.others_b)]
    cited = Evidence(
        say("what moved takes and gives the same on both sides, with the others"),
        tuple(each.a for each in found),
        tuple(each.b for each in found),
        tuple(line for line in where(diff.b, own) if is_forward(line)),
    )
    return short, cited


def _function(module: Module, instructions: Collection[int]) -> Message | None:
    """What is told by one name, if it is."""
    opcodes = Counter(o for i in instructions if (o := module.opcodes[i]) not in PLAIN)
    name = FUNCTIONS.get(frozenset(opcodes.items()))
    return say(Operation(name)) if name else None


def _operations(module: Module, instructions: Collection[int]) -> Message:
    """The operations of a piece in their order, those first of which programs have few."""
    named = list(
        dict.fromkeys(
            _named(module, i) for i in sorted(instructions) if module.opcodes[i] not in PLAIN
        )
    )
    rare = [name for name in named if str(name) not in COMMON]
    return join(rare or named, MAX_OTHERS, " and ")


def _named(module: Module, i: int) -> Message:
    """What the framework calls an operation, else XLA."""
    opcode = module.opcodes[i]
    return say(Operation(operation_name(module, i) or CALLED.get(opcode, opcode)))


def _is_part(diff: Diff, cause: Cause, regions: tuple[set[int], set[int]]) -> bool:
    """Whether a cause is of nothing but what moved, and of what stands beside it."""
    if not cause.proved or cause.kind not in (*BRANCHES, *NUMBERS):
        return False
    return all(
        i in region or module.opcodes[i] in PLAIN
        for module, own, region in zip((diff.a, diff.b), (cause.a, cause.b), regions, strict=True)
        for i in own
    )


def _region(module: Module, moved: Iterable[tuple[int, frozenset[int]]]) -> set[int]:
    """What moved, what it moved past, what these take that is a number, and what takes them."""
    own = {i for one, others in moved for i in (one, *others)}
    found = set(own)
    for i in own:
        found.update(n for o in module.operands[i] if (n := number_of(module, o)) is not None)
        found.update(c for k in module.callees.get(i, ()) for c in _inside(module, k))
        found.update(takers(module, i))
    return found


def _inside(module: Module, computation: int) -> range:
    own = module.computations[computation]
    return range(own.start, own.stop)
