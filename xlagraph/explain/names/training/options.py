"""Options of an optimizer that keep a tensor more for each weight, as one cause with these."""

from __future__ import annotations

from typing import TYPE_CHECKING

from xlagraph.explain.names.merged import merged
from xlagraph.facts.training.gradients import through_forms
from xlagraph.facts.training.updates import in_updates, updates
from xlagraph.message import A, B, say
from xlagraph.rules.inputs.added_input import ADDED_INPUT
from xlagraph.rules.pieces.other_operand import OTHER_OPERAND
from xlagraph.rules.training.optimizer_option import (
    OPTIMIZER_OPTION,
    STATE_FIX,
    STATE_SHORT,
    STATE_SHORT_FIX,
)
from xlagraph.rules.training.optimizer_state import OPTIMIZER_STATE

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from xlagraph.cause.model import Cause
    from xlagraph.diff import Diff
    from xlagraph.graph import Module
    from xlagraph.message import Message, Side

MAX_TERMS = 8
"""Terms and factors below a root that are looked at."""


def with_state(diff: Diff, causes: Sequence[Cause]) -> list[Cause]:
    """The causes; an optimizer's option with the state that one side alone takes in for it."""
    main = next((c for c in causes if c.kind is OPTIMIZER_OPTION and c.proved), None)
    if main is None:
        return list(causes)
    if first := _with_first_state(diff, causes, main):
        return first
    for side, module in ((A, diff.a), (B, diff.b)):
        state = [c for c in causes if c.kind is ADDED_INPUT and _is_state(module, _own(c, side))]
        if state:
            told = _named(module, _own(main, side), side)
            return merged(
                *(causes, main, [main, *state]),
                short=told or STATE_SHORT,
                fix=STATE_FIX,
                short_fix=STATE_SHORT_FIX,
            )
    return list(causes)


def _with_first_state(diff: Diff, causes: Sequence[Cause], main: Cause) -> list[Cause] | None:
    """The causes; as state that came into being what an optimizer makes of it from then on.

    SGD's momentum is the gradient at first, and decayed and added to later.
    """
    state = next((c for c in causes if c.kind is OPTIMIZER_STATE and c.proved), None)
    if state is None:
        return None
    for side, module, lone in ((A, diff.a, diff.removed), (B, diff.b, diff.added)):
        own = _own(main, side).intersection(lone)
        made = _own(state, side).intersection(lone)
        if any(not made.isdisjoint(module.operands[i]) for i in own):
            given = [c for c in causes if c.kind is OTHER_OPERAND and not c.share]
            first = [state, *(cause for cause in causes if cause is not state)]
            return merged(first, state, [state, main, *given])
    return None


def _own(cause: Cause, side: Side) -> frozenset[int]:
    return cause.a if side is A else cause.b


def _is_state(module: Module, own: Collection[int]) -> bool:
    """Whether a side takes in tensors by these instructions, and updates all of them.

    Updates alone use them: weights have a place in the forward pass.
    """
    taken = {
        i for i in own if module.opcodes[i] == "parameter" and not module.shapes[i].endswith("[]")
    }
    if not taken or not taken <= updates(module).keys():
        return False
    behind = in_updates(module)
    return all(user in behind for i in taken for user in module.users[i])


def _named(module: Module, own: Collection[int], side: Side) -> Message | None:
    """The option, by what its state serves for."""
    outputs = {*module.outputs}
    roots = [i for i in own if module.opcodes[i] in ("sqrt", "rsqrt")]
    if any(_takes_off_a_square(module, i, outputs) for i in roots):
        words = ("the optimizer takes the squares of the gradients' averages off, in ", side)
        return say(*words, " only: it is centered (RMSprop)")
    return None


def _takes_off_a_square(module: Module, root: int, outputs: set[int]) -> bool:
    """Whether a root is of a sum with the square of a tensor that is given out among its terms."""
    stack = [*module.operands[root]]
    for i in stack:  # grows while it is read
        factors = {through_forms(module, o) for o in module.operands[i]}
        if module.opcodes[i] == "multiply" and len(factors) == 1 and factors & outputs:
            return True
        if module.opcodes[i] in ("add", "multiply", "subtract") and len(stack) < MAX_TERMS:
            stack += module.operands[i]
    return False
