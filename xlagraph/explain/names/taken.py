"""Operations that take another value, with what they take on each side."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from xlagraph.canon.labels import bare_shape
from xlagraph.cause.editor import is_input
from xlagraph.cause.names import short_shape
from xlagraph.cause.sources import knows_lines, line_of, operation_name
from xlagraph.explain.names.merged import BRANCHES, has_code
from xlagraph.facts.program.arguments import argument_name, is_jitted
from xlagraph.facts.shapes.sizes import BOUNDS
from xlagraph.facts.values.notation import told_as
from xlagraph.facts.values.scalars import SPREADS, through
from xlagraph.hlo.shapes import read_shape
from xlagraph.message import A, B, Code, Operation, say
from xlagraph.rules.pieces.other_operand import OTHER_OPERAND
from xlagraph.rules.training.rematerialization import REMATERIALIZATION

if TYPE_CHECKING:
    from collections.abc import Sequence

    from xlagraph.cause.model import Cause
    from xlagraph.diff import Diff
    from xlagraph.graph import Module
    from xlagraph.message import Message

PLAIN = "a value is computed with"
"""How what nothing else is known of is told."""


def with_taken(diff: Diff, cause: Cause) -> Cause:
    """The cause with what an operation takes on each side, where one is taken for the other."""
    if cause.kind is not OTHER_OPERAND or cause.short:
        return cause
    for x, y, fields in diff.changes:
        if x not in cause.a or y not in cause.b or "operands" not in fields:
            continue
        if len(diff.a.operands[x]) != len(diff.b.operands[y]):
            continue
        for p, q in zip(diff.a.operands[x], diff.b.operands[y], strict=True):
            one, other = value_in_words(diff.a, p), value_in_words(diff.b, q)
            if one == other and (place := _place_in_a(diff, q)) is not None:
                # it stands under another number
                other = say("what is ", value_in_words(diff.a, place), " of ", A)
            if diff.match.to_b[p] != q and one != other:
                taken = (one, " in ", A, " and ", other, " in ", B)
                return replace(cause, short=say(_operation(diff.b, y), " takes ", *taken))
    return cause


def with_forward(diff: Diff, cause: Cause) -> Cause:
    """The cause with what operations of the forward pass take, where its formula is a derivative's.

    Both sides compute what each of them takes, and nothing else of the forward pass differs: all
    the rest follows from that.
    """
    if cause.kind not in BRANCHES or not cause.proved or not _is_forward_pass(diff, cause):
        return cause
    sides = ((diff.a, cause.a & {*diff.removed}), (diff.b, cause.b & {*diff.added}))
    changed = [(x, y) for x, y, _ in diff.changes if x in cause.a and y in cause.b]
    told = [(x, y) for x, y in changed if _is_forward(diff.b, y)]
    own = any(_is_forward(module, i) for module, lone in sides for i in lone)
    if own or not told or len(told) == len(changed):
        return cause
    taken = [
        (p, q)
        for x, y in told
        if len(diff.a.operands[x]) == len(diff.b.operands[y])
        for p, q in zip(diff.a.operands[x], diff.b.operands[y], strict=True)
        if diff.match.to_b[p] != q
    ]
    if not taken or not all(diff.match.to_b[p] >= 0 <= diff.match.to_a[q] for p, q in taken):
        return cause
    (p, q), y = taken[0], told[0][1]
    words = (value_in_words(diff.a, p), " in ", A, " and ", value_in_words(diff.b, q), " in ", B)
    return replace(cause, short=say(_operation(diff.b, y), " takes ", *words))


def with_reused(diff: Diff, causes: Sequence[Cause]) -> list[Cause]:
    """The causes, those of values that one side takes again, where the other computes them anew.

    As a step that reuses the force, or the gradient, of the step before. What is computed again in
    a backward pass is no such value.
    """
    if any(cause.kind is REMATERIALIZATION for cause in causes):
        return list(causes)
    return [_as_reused(diff, cause) for cause in causes]


def _as_reused(diff: Diff, cause: Cause) -> Cause:
    is_named = has_code(cause) or not str(cause.in_short).startswith(PLAIN)
    if cause.kind not in BRANCHES or not cause.proved or is_named:
        return cause
    sides = (
        (B, diff.b, diff.a, diff.match.to_a, diff.removed),
        (A, diff.a, diff.b, diff.match.to_b, diff.added),
    )
    changed = [(x, y) for x, y, _ in diff.changes if x in cause.a and y in cause.b]
    for side, module, other, partners, lone in sides:
        for pair in sorted(changed):
            y, x = pair if side is A else pair[::-1]
            value = _reused(module, other, partners, (y, x))
            if value is not None and value[1] in lone:
                short = say(
                    *("a value is computed anew in ", side.other, ", and taken again in ", side),
                    *(": ", _operation(module, y), " takes ", value_in_words(module, value[0])),
                )
                line = line_of(module, y)
                place = cause.place.at(line if line and not line.is_library else None)
                return replace(cause, title=short, short=short, place=place)
    return cause


def _reused(
    module: Module, other: Module, partners: Sequence[int], pair: tuple[int, int]
) -> tuple[int, int] | None:
    """What one of two operations takes of both sides' values, and what the other takes for it.

    Another operation took the first as well, before; both are made by the same operation.
    """
    y, x = pair
    is_one = len(module.operands[y]) == len(other.operands[x])
    if module.opcodes[y] != other.opcodes[x] or module.opcodes[y] in SPREADS or not is_one:
        return None
    taken = zip(module.operands[y], other.operands[x], strict=True)
    apart = [(q, p) for q, p in taken if partners[q] != p]
    if len(apart) != 1:
        return None
    q, p = apart[0]
    mate = partners[q]
    is_again = mate >= 0 and len(module.users[q]) == len(other.users[mate]) + 1 > 1
    is_alike = (
        bare_shape(module, q) == bare_shape(other, p) and module.opcodes[q] == other.opcodes[p]
    )
    return (q, p) if is_again and is_alike and module.operands[q] else None


def _is_forward_pass(diff: Diff, cause: Cause) -> bool:
    """Whether lines tell the forward pass from derivatives, and a cause stands in it."""
    is_known = knows_lines(diff.a) and knows_lines(diff.b) and not is_jitted(diff.b)
    return is_known and cause.place.line is not None and not cause.place.is_near


def _is_forward(module: Module, i: int) -> bool:
    line = line_of(module, i)
    return line is not None and not line.backward_of and module.opcodes[i] not in SPREADS


def _place_in_a(diff: Diff, value: int) -> int | None:
    """The input of A that an input of B is, if it has one."""
    value = through(diff.b, value, SPREADS)
    inputs = diff.a.entry_computation.parameters
    return next((p for p in inputs if diff.match.to_b[p] == value), None)


def _operation(module: Module, i: int) -> Message:
    """What the framework calls an operation, or its opcode."""
    return say(Operation(operation_name(module, i) or module.opcodes[i]))


def value_in_words(module: Module, value: int) -> Message:
    """A value by its name, as a part of another one, or by what computes it, and where."""
    value = through(module, value, SPREADS)
    if module.opcodes[value] == "slice":
        part = _part(module, value)
        (whole,) = module.operands[value]
        if part and not is_input(module, through(module, whole, SPREADS)):
            return say("part ", Code(part), " of ", value_in_words(module, whole))
        return say(value_in_words(module, whole), Code(part) if part else "")
    if is_input(module, value):
        number = f"input {module.payloads[value]}"
        name = argument_name(module, value)
        return say(Code(name) if name else f"{number} ({short_shape(module, value)})")
    line = line_of(module, value)
    place = (" at ", line) if line else ()
    return say("the result of ", told_as(module, value), f" {short_shape(module, value)}", *place)


def _part(module: Module, cut: int) -> str:
    """``[1:2, :]`` of a slice; empty if it takes all."""
    sizes = read_shape(bare_shape(module, module.operands[cut][0])).dimensions
    ranges = BOUNDS.findall(module.attributes[cut].get("slice") or "")
    if len(ranges) != len(sizes):
        return ""
    told = [
        ":"
        if (start, stop) == ("0", str(size)) and step in ("", "1")
        else f"{start}:{stop}" + (f":{step}" if step not in ("", "1") else "")
        for (start, stop, step), size in zip(ranges, sizes, strict=True)
    ]
    while told and told[-1] == ":":
        told.pop()
    return f"[{', '.join(told)}]" if told else ""
