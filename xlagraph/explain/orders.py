"""What is said of two modules that compute the same, bit for bit, in another order."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from xlagraph.facts.calls.inlining import diff_in_line
from xlagraph.facts.program.versions import are_versions, exchanges_arguments, nothing_tells
from xlagraph.message import say
from xlagraph.rules.calls.inlined_calls import INLINED_CALLS
from xlagraph.rules.module.same_computation import KINDS, OUTPUTS_MOVED, remaining_differences
from xlagraph.rules.order.output_order import OUTPUT_ORDER

if TYPE_CHECKING:
    from collections.abc import Sequence

    from xlagraph.cause.model import Cause, Context
    from xlagraph.diff import Diff
    from xlagraph.message import Message

SHORT = say("The same computation; its outputs come in another order")
SHORT_FIX = say("Two versions: none needed. Steps of one program: keep the order.")
NO_FIX = say("None needed: either value may stand first, and the result is the same, bit for bit.")
NO_FIX_CALLS = say("None needed: the result is the same, bit for bit.")
SHORT_FIX_CALLS = say("Two versions: none needed. Steps of one program: use jax.jit alike.")
_STEPS = " Between steps of one program, each of which XLA compiles: "


def is_order_alone(diff: Diff, causes: Sequence[Cause]) -> bool:
    """Whether nothing differs but orders that change no value."""
    is_order = bool(causes) and all(cause.proved and cause.is_exact for cause in causes)
    return is_order and not exchanges_arguments(as_compared(diff, causes))


def as_compared(diff: Diff, causes: Sequence[Cause]) -> Diff:
    """The difference that pairs inputs and outputs: with calls in line, if that is a cause.

    What a call hands out is paired by its place, as long as the call is one instruction.
    """
    is_called = any(cause.kind is INLINED_CALLS for cause in causes)
    return (diff_in_line(diff.a, diff.b) if is_called else None) or diff


def differs_in_order_alone(
    diff: Diff, causes: Sequence[Cause], contexts: tuple[Context, Context]
) -> bool:
    """Whether two versions of a program compute the same, bit for bit, in another order alone.

    Outputs may be handed out in any order, and either operand of an addition may stand first. Where
    both have the same arguments by name each of them keeps its part. Bare modules of which nothing
    tells whether they are two versions or two steps are the same computation as well.
    """
    if not is_order_alone(diff, causes):
        return False
    return are_versions(diff, contexts) is True or nothing_tells(diff, contexts)


def left_in_order(diff: Diff, causes: Sequence[Cause]) -> tuple[Cause, ...]:
    """What differs between two modules that are the same computation: orders, and what is noise."""
    inside = [cause for cause in causes if cause.kind is not OUTPUT_ORDER]
    return (*inside, *remaining_differences(as_compared(diff, causes)))


def in_words_of_orders(
    diff: Diff, causes: Sequence[Cause], *, is_sure: bool
) -> tuple[Cause, ...] | None:
    """The causes in words for two versions, which may have any order, and for steps.

    None if something else differs. `is_sure`: they are two versions.
    """
    orders = [cause for cause in causes if cause.kind not in KINDS]
    if orders and not is_order_alone(diff, orders):
        return None
    return tuple(_of_order(cause, is_sure=is_sure) for cause in causes)


def _of_order(cause: Cause, *, is_sure: bool) -> Cause:
    if cause.kind in (OUTPUTS_MOVED, OUTPUT_ORDER):
        return cause if is_sure else _of_outputs(cause)
    if not cause.is_exact:
        return cause
    is_called = cause.kind is INLINED_CALLS
    no_fix = NO_FIX_CALLS if is_called else NO_FIX
    if is_sure:
        return replace(cause, fix=no_fix, short_fix=no_fix)
    return replace(
        cause,
        short=say("The same computation; ", cause.in_short.clause),
        fix=_fix(no_fix, cause.fix),
        short_fix=SHORT_FIX_CALLS if is_called else SHORT_FIX,
    )


def _of_outputs(cause: Cause) -> Cause:
    fix = _fix(say(OUTPUTS_MOVED.fix), say(OUTPUT_ORDER.fix))
    if cause.kind is OUTPUTS_MOVED:
        return replace(cause, fix=fix)
    return replace(cause, short=SHORT, fix=fix, short_fix=SHORT_FIX)


def _fix(versions: Message, steps: Message) -> Message:
    return say("Between two versions of a program: ", versions.clause, _STEPS, steps.clause)
