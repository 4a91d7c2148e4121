"""Causes that are a forgotten ``squeeze``: two columns of values meet each with each on one side.

Values of shape [n,1] and [n] broadcast to [n,n] without an error, where the other side combines
each value with its own.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from xlagraph.cause.model import Evidence
from xlagraph.cause.names import short_shape
from xlagraph.cause.sources import where
from xlagraph.explain.names.merged import BRANCHES
from xlagraph.facts.values.notation import elements
from xlagraph.facts.values.scalars import SPREADS, through
from xlagraph.message import A, B, say

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from xlagraph.cause.model import Cause
    from xlagraph.diff import Diff
    from xlagraph.graph import Module
    from xlagraph.message import Message

FIX = say(
    "Give both values the same shape before they meet (squeeze or unsqueeze one of them): an axis "
    "of one element is spread over the other value's, and each is combined with each."
)
SHORT_FIX = say("Give both values one shape (squeeze or unsqueeze one of them).")


def with_crossed(diff: Diff, causes: Sequence[Cause]) -> list[Cause]:
    """The causes, the first as values that meet each with each, if it leads to that alone."""
    first, *others = causes or (None,)
    if first is None or first.kind not in BRANCHES or not first.proved:
        return list(causes)
    sides = (
        (B, diff.b, diff.a, diff.match.to_a, diff.differing_in_b),
        (A, diff.a, diff.b, diff.match.to_b, diff.differing_in_a),
    )
    for side, module, other, partners, differing in sides:
        for i, values in _crossed(module, sorted(differing)):
            mates = {partners[value] for value in values}
            own = (
                next(_combined(other, module.opcodes[i], mates), None) if min(mates) >= 0 else None
            )
            if own is None:
                continue
            shapes = [short_shape(module, value) for value in values]
            short = say(
                "values are combined each with each in ",
                *(side, f" ({shapes[0]} and {shapes[1]} to {short_shape(module, i)}), and each "),
                *("with its own in ", side.other, f" ({short_shape(other, own)})"),
            )
            return [_told(first, short, module, i), *others]
    return list(causes)


def _told(cause: Cause, short: Message, module: Module, i: int) -> Cause:
    lines = tuple(line for line in where(module, [i]) if not line.is_library)
    cited = Evidence(say("where the two meet"), sources=lines)
    place = cause.place.at(next(iter(lines), None))
    told = replace(cause, title=short, short=short, fix=FIX, short_fix=SHORT_FIX)
    return replace(told, evidence=(cited, *cause.evidence), place=place)


def _crossed(module: Module, differing: Sequence[int]) -> Iterator[tuple[int, tuple[int, int]]]:
    """What combines as many values along one axis with those along another, each with each."""
    for i in differing:
        operands = module.operands[i]
        if len(operands) != 2 or module.opcodes[i] == "dot":
            continue
        one, other = (through(module, o, SPREADS) for o in operands)
        count = elements(module, one)
        if not count == elements(module, other) > 1 or elements(module, i) != count**2:
            continue
        if one != other:
            yield i, (one, other)


def _combined(module: Module, opcode: str, values: set[int]) -> Iterator[int]:
    """What combines the same values by the same operation, each with its own."""
    for value in values:
        front = [value]
        for x in front:  # grows while it is read
            for user in module.users[x]:
                if module.opcodes[user] in SPREADS:
                    front.append(user)
                elif module.opcodes[user] == opcode and len(module.operands[user]) == 2:
                    forms = {through(module, o, SPREADS) for o in module.operands[user]}
                    if forms == values and elements(module, user) == elements(module, value):
                        yield user
