"""What is said of a line again that a formula of that line has told."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from xlagraph.explain.names.merged import BRANCHES, is_order, merged, numbers_of
from xlagraph.rules.numbers.scalar_argument import SPECIAL_SCALAR
from xlagraph.rules.order.turned_operations import SHORT as TURNED_SHORT
from xlagraph.rules.pieces.other_operand import AFTER_UPDATE, OTHER_OPERAND
from xlagraph.rules.training.clipping import CLIPPING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from xlagraph.cause.model import Cause
    from xlagraph.diff import Diff

USED = AFTER_UPDATE.removesuffix("some steps")
_NUMBER = re.compile(r"(?<![\w.])-?\d+(?:\.\d+)?(?:e-?\d+)?")


def with_folded(diff: Diff, causes: Sequence[Cause]) -> list[Cause]:
    """The causes, those with a formula together with what only says the same of its line.

    That are its numbers, those included that one text alone has, the order in which its operations
    take their values, and that one of these is used before its update on one side and behind it on
    the other: which is said first. And those that have a value replaced within another piece.
    """
    told = list(causes)
    for main in causes:
        parts = [cause for cause in told if _is_part(diff, cause, main)] if main in told else []
        if parts:
            told = merged(told, main, [main, *parts], **_words(parts))
    return _with_inner(told)


def _with_inner(causes: Sequence[Cause]) -> list[Cause]:
    """The causes; a value that another one has replaced, within a piece that is told, with that.

    Its users are of the piece, so that it is no branch of its own; an update of a tensor is.
    """
    told = list(causes)
    for main in causes:
        if main not in told or not main.proved or main.kind not in (*BRANCHES, CLIPPING):
            continue
        inner = [
            one
            for one in told
            if one.kind is OTHER_OPERAND
            and one.proved
            and USED not in str(one.in_short)
            and one.a <= main.a
            and one.b <= main.b
        ]
        if inner:
            told = merged(told, main, [main, *inner])
    return told


def _words(parts: Sequence[Cause]) -> dict[str, object]:
    """How all of it is called: by the value that another one has replaced, if one has."""
    first = next((one for one in parts if one.kind is OTHER_OPERAND), None)
    return {} if first is None else {"kind": first.kind, "title": first.title, "short": first.short}


def _is_part(diff: Diff, cause: Cause, main: Cause) -> bool:
    """Whether a cause says no more than the formula of another one, at its line.

    Or than clipping at another place, by which operations stand in another order.
    """
    formulas = main.in_short.code
    line, own = main.place.line, cause.place.line
    is_told = main.kind in BRANCHES and len(formulas) == 2
    if cause is main or not (cause.proved and main.proved and (is_told or main.kind is CLIPPING)):
        return False
    if line is None or own is None or line[:2] != own[:2]:
        return False
    if main.kind is CLIPPING:
        return cause.kind in BRANCHES and cause.in_short == TURNED_SHORT
    if cause.kind is SPECIAL_SCALAR:
        return True
    if numbers := numbers_of(cause):
        found = ({*map(float, _NUMBER.findall(text))} for text in formulas)
        return all(number in has for number, has in zip(numbers, found, strict=True))
    return is_order(diff, cause) or USED in str(cause.in_short)
