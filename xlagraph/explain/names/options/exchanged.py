"""Values whose axes stand in another order, with what they are combined with along them."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from xlagraph.canon.labels import bare_shape
from xlagraph.cause.names import differing_keys
from xlagraph.explain.names.merged import pairs_of
from xlagraph.explain.names.taken import value_in_words
from xlagraph.facts.values.notation import told_as
from xlagraph.facts.values.scalars import SPREADS, is_number, through
from xlagraph.hlo.shapes import read_shape
from xlagraph.message import EMPTY, A, B, Operation, say
from xlagraph.rules.shapes.exchanged_axes import EXCHANGED_AXES

if TYPE_CHECKING:
    from xlagraph.cause.model import Cause
    from xlagraph.diff import Diff
    from xlagraph.graph import Module
    from xlagraph.message import Message

MAX_STEPS = 32
"""Forms of a value, and what is computed of it alone, before it meets another one."""


def with_exchanged(diff: Diff, cause: Cause) -> Cause:
    """The cause with the axis along which a value lies on each side, and with what it meets."""
    if cause.kind is not EXCHANGED_AXES or cause.short:
        return cause
    for x, y in pairs_of(diff, cause):
        axes = _axis(diff.a, x), _axis(diff.b, y)
        if axes[0] is None or axes[1] is None or axes[0] == axes[1]:
            continue
        met = _met(diff.a, x)
        if met is None:
            continue
        short = say(
            *(value_in_words(diff.a, x), f" lies along axis {axes[0]} in ", A),
            *(f" and along axis {axes[1]} in ", B, ", where ", Operation(told_as(diff.a, met[0]))),
            *(" takes it with ", value_in_words(diff.a, met[1]), _reduced(diff, cause)),
        )
        return replace(cause, short=short)
    return cause


def _axis(module: Module, i: int) -> int | None:
    """The last axis of more than one element, where a form of a value has axes of one."""
    sizes = read_shape(bare_shape(module, i)).dimensions
    own = [k for k, size in enumerate(sizes) if size > 1]
    return own[-1] if own and 1 in sizes else None


def _met(module: Module, value: int) -> tuple[int, int] | None:
    """What first combines a value with another one that is no number, and this one."""
    front, source = [value], through(module, value, SPREADS)
    for i in front:  # grows while it is read
        for user in module.users[i]:
            if module.opcodes[user] in SPREADS:
                front.append(user)
                continue
            forms = [through(module, o, SPREADS) for o in module.operands[user]]
            others = [
                o
                for o, form in zip(module.operands[user], forms, strict=True)
                if form != source and not is_number(module, o)
            ]
            if len(forms) > 1 and others:
                return user, others[0]
            front.append(user)
        if len(front) > MAX_STEPS:
            break
    return None


def _reduced(diff: Diff, cause: Cause) -> Message:
    """Over which axes what comes of it is reduced, where these are others as well."""
    for x, y in pairs_of(diff, cause):
        old, new = diff.a.attributes[x], diff.b.attributes[y]
        if diff.a.opcodes[x] == "reduce" and "dimensions" in differing_keys(old, new):
            told = [str(one.get("dimensions")).strip("{}") for one in (old, new)]
            return say(f"; reduce runs over axis {told[0]} in ", A, f" and {told[1]} in ", B)
    return EMPTY
