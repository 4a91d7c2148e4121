"""Causes that tell of what is computed of the number of steps alone, as a learning rate."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING

from xlagraph.cause.slices import made_of
from xlagraph.explain.names.merged import merged
from xlagraph.message import Change, say
from xlagraph.rules.numbers.constant_value import CONSTANT_VALUE
from xlagraph.rules.pieces.call_option import CALL_OPTION
from xlagraph.rules.pieces.extra_subgraph import EXTRA_SUBGRAPH
from xlagraph.rules.pieces.replaced_subgraph import REPLACED_SUBGRAPH

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from xlagraph.cause.model import Cause
    from xlagraph.diff import Diff
    from xlagraph.graph import Module
    from xlagraph.message import Message

PIECES = (CALL_OPTION, EXTRA_SUBGRAPH, REPLACED_SUBGRAPH)
OWN = (*PIECES, CONSTANT_VALUE)
LENGTHS = frozenset({"clamp", "compare", "divide", "maximum", "minimum", "multiply"})
"""What is done to a count of steps with a schedule's number of them."""
BOUNDS = frozenset({"clamp", "compare", "maximum", "minimum"})
LENGTH = "A schedule, as of a learning rate, has another number of steps: "
SCHEDULE = say("A schedule, as of a learning rate, computes another number of the count of steps")
FIX = say("Keep one schedule in both; a step that is to follow either can be given the number.")
SHORT_FIX = say("Keep one schedule in both.")
_COUNT = re.compile(r"[su](?:32|64)\[\]")
_SCHEDULES = "optax/schedules/"


def with_schedule(diff: Diff, causes: Sequence[Cause]) -> list[Cause]:
    """The causes; as one, by its name, those of what a schedule computes of the count of steps.

    A line has to say that it is one: optimizers correct their averages by that count, too.
    """
    own = [cause for cause in causes if cause.proved and cause.kind in OWN and _is_of(diff, cause)]
    pieces = [cause for cause in own if cause.kind in PIECES]
    if not any(_runs_schedule(cause) for cause in pieces):
        return [_with_length(diff, cause) for cause in causes]
    told = merged(
        causes,
        pieces[0],
        own,
        title=say(SCHEDULE.clause, *_place(pieces[0])),
        short=SCHEDULE,
        fix=FIX,
        short_fix=SHORT_FIX,
    )
    return sorted(told, key=lambda cause: -cause.share)


def _with_length(diff: Diff, cause: Cause) -> Cause:
    """The cause, a number that a count of steps is bounded or divided by as one of a schedule."""
    if cause.kind is not CONSTANT_VALUE or not cause.proved:
        return cause
    numbers = [c for c in diff.changes if c.a in cause.a and diff.a.opcodes[c.a] == "constant"]
    users = [u for c in numbers for u in _users(diff.a, c.a)]
    is_length = all(diff.a.opcodes[u] in LENGTHS and _of_count(diff.a, u) for u in users)
    if not numbers or not is_length or not any(diff.a.opcodes[u] in BOUNDS for u in users):
        return cause
    old, new = diff.a.payloads[numbers[0].a], diff.b.payloads[numbers[0].b]
    short = say(LENGTH, Change(old, new, "became"))
    return replace(cause, short=short, fix=FIX, short_fix=SHORT_FIX)


def _users(module: Module, i: int) -> list[int]:
    """The instructions that take a number, spread or not."""
    found = []
    for user in module.users[i]:
        is_spread = module.opcodes[user] in ("broadcast", "convert")
        found += _users(module, user) if is_spread else [user]
    return found


def _of_count(module: Module, i: int) -> bool:
    """Whether a number of the entry computation is made of whole numbers that come in."""
    inputs = {k for k in made_of(module, i) if module.opcodes[k] == "parameter"}
    return bool(inputs) and _are_of_count(module, {i})


def _place(cause: Cause) -> tuple[Message, ...]:
    return (say(" at ", cause.place.line),) if cause.place.line else ()


def _is_of(diff: Diff, cause: Cause) -> bool:
    """Whether all that one side computes by itself are numbers made of a count alone."""
    changed = [c for c in diff.changes if c.a in cause.a or c.b in cause.b]
    numbers = {c.a for c in changed if {*c.fields} - {"operands"}}
    in_b = {c.b for c in changed if {*c.fields} - {"operands"}}
    alone_a, alone_b = cause.a.intersection(diff.removed), cause.b.intersection(diff.added)
    is_of = _are_of_count(diff.a, alone_a | numbers) and _are_of_count(diff.b, alone_b | in_b)
    return is_of and bool(alone_a or alone_b or numbers)


def _are_of_count(module: Module, own: Collection[int]) -> bool:
    entry = module.entry_computation
    for i in own:
        if not entry.start <= i < entry.stop:
            continue
        inputs = {k for k in made_of(module, i) if module.opcodes[k] == "parameter"}
        is_number = module.shapes[i].partition("{")[0].endswith("[]")
        if not is_number or not all(_COUNT.match(module.shapes[k]) for k in inputs):
            return False
    return True


def _runs_schedule(cause: Cause) -> bool:
    """Whether a library of schedules runs what a cause cites."""
    lines = (line for evidence in cause.evidence for line in evidence.sources)
    return any(_SCHEDULES in f"{one.file}" for line in lines for one in (line.called, line) if one)
