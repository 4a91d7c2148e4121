"""Causes that are a function of the program: a value passes through it on one side alone."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from xlagraph.cause.slices import IDLE
from xlagraph.cause.sources import line_of, stack
from xlagraph.explain.names.merged import has_code
from xlagraph.message import A, B, Code, say
from xlagraph.rules.pieces.extra_subgraph import EXTRA_SUBGRAPH

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Sequence

    from xlagraph.cause.model import Cause
    from xlagraph.diff import Diff
    from xlagraph.graph import Module
    from xlagraph.message import Side, SourceLine

    Scope = tuple[str, str]
    """A file and a function in it."""


def with_passed(diff: Diff, causes: Sequence[Cause]) -> list[Cause]:
    """The causes; a piece that is what a function computes as that, if no formula tells it.

    What it takes in is made elsewhere, and what it makes is taken elsewhere.
    """
    return [_passed(diff, cause) for cause in causes]


def _passed(diff: Diff, cause: Cause) -> Cause:
    own_a, own_b = cause.a.intersection(diff.removed), cause.b.intersection(diff.added)
    is_piece = cause.kind is EXTRA_SUBGRAPH and cause.proved and not has_code(cause)
    if not is_piece or bool(own_a) == bool(own_b):
        return cause
    side, module, own = (A, diff.a, own_a) if own_a else (B, diff.b, own_b)
    through = _only(_scopes(module, own))
    if through is None or not through[1].isidentifier() or through[1] in ("forward", "main"):
        return cause
    taken = {u for i in own for u in module.users[i]} - own
    behind = _scopes(module, taken - {module.entry_computation.root})
    given = _scopes(module, {o for i in own for o in module.operands[i]} - own)
    if not behind or through in behind or not given - {through}:
        return cause
    return _told(cause, side, module, own, (through, _only(behind)))


def _told(
    cause: Cause,
    side: Side,
    module: Module,
    own: Collection[int],
    scopes: tuple[Scope, Scope | None],
) -> Cause:
    (_, through), behind = scopes
    before = behind[1] if behind else ""
    ahead = (" before ", Code(f"{before}()")) if before.isidentifier() else ()
    short = say(
        *("a value passes through ", Code(f"{through}()"), *ahead),
        *(" in ", side, ", and not in ", side.other),
    )
    call = _call(module, own, through)
    place = replace(cause.place, line=call, stack=(), source=()) if call else cause.place
    return replace(cause, title=short, short=short, place=place)


def _scopes(module: Module, instructions: Iterable[int]) -> set[Scope]:
    """The functions in which these are computed, as far as that is known."""
    working = (i for i in instructions if module.opcodes[i] not in IDLE)
    return {line.scope for i in working if (line := line_of(module, i))}


def _only(scopes: set[Scope]) -> Scope | None:
    return next(iter(scopes)) if len(scopes) == 1 else None


def _call(module: Module, own: Iterable[int], function: str) -> SourceLine | None:
    """The one line that calls the function, where it is called by one."""
    found: dict[SourceLine, None] = {}
    for i in own:
        frames = stack(module, i)
        inside = next((k for k, frame in enumerate(frames) if frame.function == function), None)
        if inside is not None and inside + 1 < len(frames):
            found[frames[inside + 1]] = None
    return next(iter(found)) if len(found) == 1 else None
