"""What is said of an option, a number or a shape with what it was and what it became."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from xlagraph.cause.names import differing_keys, short_shape
from xlagraph.explain.names.merged import pairs_of
from xlagraph.facts.values.notation import SIGNS
from xlagraph.facts.values.reductions import reduction_name
from xlagraph.message import Change, Code, Quoted, SourceLine, join, say
from xlagraph.rules.numbers.batch_norm_momentum import MOMENTUM_SHORT
from xlagraph.rules.numbers.constant_value import CHANGED, CONSTANT_VALUE, NUMBER
from xlagraph.rules.numbers.scalar_argument import RATE_OF_ZERO
from xlagraph.rules.shapes.attributes import REPLICA_GROUPS, WRITTEN, WRITTEN_SHORT
from xlagraph.rules.shapes.exchanged_axes import EXCHANGED_AXES
from xlagraph.rules.shapes.sizes import ATTRIBUTE, INPUT_SHAPE, PYTHON_INDEX, PYTHON_SIZE

if TYPE_CHECKING:
    from xlagraph.cause.model import Cause
    from xlagraph.diff import Diff
    from xlagraph.message import Message, Part

MAX_VALUE = 48
"""Characters of a value of an option in a verdict."""
COMPARED = "a comparison is another one: "
"""Nothing but an edit makes one of the other: sizes and types leave it."""
SPECIAL, PADDED = "took a special value: ", " pads: padding: "
PADS = "Values are padded otherwise"
PAD_FIX = say("Pad by as much on each side in every step, and in both versions.")


def with_values(diff: Diff, cause: Cause) -> Cause:
    """The cause with the two values of an option or a number, where one became one other."""
    changes = [part for part in cause.title.parts if isinstance(part, Change)]
    is_momentum = cause.short == MOMENTUM_SHORT
    *named, last = cause.short.parts or ("",)
    is_number = cause.kind is CONSTANT_VALUE and str(last).endswith(CHANGED)
    is_told = cause.short and not (is_momentum or is_number or cause.short == WRITTEN_SHORT)
    if is_told or len(changes) != 1:
        return cause
    if max(map(len, changes[0][:2])) > MAX_VALUE:
        return cause
    change = changes[0]._replace(became="became")
    if is_momentum:
        return replace(cause, short=say("BatchNorm's momentum is baked into the graph: ", change))
    if is_number:
        return replace(cause, short=say(*named, str(last).removesuffix(CHANGED), ": ", change))
    if cause.kind is CONSTANT_VALUE:
        return replace(cause, short=say(NUMBER, ": ", change))
    if cause.kind in (PYTHON_INDEX, REPLICA_GROUPS):
        return replace(cause, short=say(cause.in_short, ": ", change))
    option = _option(diff, cause, change) if cause.kind is ATTRIBUTE else None
    if option is None:
        return cause
    opcode, key = option
    if (opcode, key) == ("compare", "direction"):
        signs = (Code(f"x {SIGNS.get(one, one)} y") for one in change[:2])
        return replace(cause, short=say(COMPARED, *join(signs, between=" became ").parts))
    if (opcode, key) == ("reduce", "dimensions"):
        names = {reduction_name(diff.a, x) for x in cause.a if diff.a.opcodes[x] == opcode} - {""}
        opcode = names.pop() if len(names) == 1 else opcode
    return replace(cause, short=say(f"{opcode}'s {key}: ", change))


def with_size(_: Diff, cause: Cause) -> Cause:
    """The cause with the two sizes of a tensor that the step makes, where one changed alone."""
    changes = [part for part in cause.title.parts if isinstance(part, Change)]
    if cause.kind is not PYTHON_SIZE or cause.short or len(changes) != 1:
        return cause
    return replace(cause, short=say(cause.in_short, ": ", changes[0]._replace(became="became")))


def with_place(diff: Diff, cause: Cause) -> Cause:
    """The cause with what its title says behind its words: which number is 1, what is padded."""
    if cause.kind is EXCHANGED_AXES and not cause.short:
        return replace(cause, short=say(cause.in_short, *_other_shape(diff, cause)))
    if cause.kind is INPUT_SHAPE and not cause.short:
        return replace(cause, short=_up_to_place(cause.title))
    first, *rest = cause.title.parts or ("",)
    if str(cause.short).startswith(RATE_OF_ZERO):
        return cause
    for key, words in ((SPECIAL, cause.in_short), (PADDED, say(PADS))):
        if isinstance(first, str) and key in first and not first.startswith(WRITTEN):
            told = first.partition(key)[2].removesuffix(" at ")
            ends = rest[:1] if rest and isinstance(rest[0], Quoted) else []
            cause = replace(cause, short=say(words, ": ", told, *ends))
            return replace(cause, fix=PAD_FIX, short_fix=PAD_FIX) if key is PADDED else cause
    return cause


def _other_shape(diff: Diff, cause: Cause) -> tuple[Part, ...]:
    """The first shape of a cause that is another one, on both sides."""
    for x, y, fields in sorted(diff.changes):
        if x in cause.a and y in cause.b and "shape" in fields:
            return (": ", short_shape(diff.a, x), " became ", short_shape(diff.b, y))
    return ()


def _up_to_place(title: Message) -> Message:
    """What a title says before it names the line."""
    parts: list[Part] = []
    for part in title.clause.parts:
        if isinstance(part, SourceLine):
            *parts, last = parts
            return say(*parts, str(last).removesuffix(" at "))
        parts.append(part)
    return say(*parts)


def _option(diff: Diff, cause: Cause, change: Change) -> tuple[str, str] | None:
    """The opcode and the name of the first option that has these two values."""
    for x, y in pairs_of(diff, cause):
        old, new = diff.a.attributes[x], diff.b.attributes[y]
        for key in sorted(differing_keys(old, new)):
            if (old.get(key), new.get(key)) == change[:2]:
                return diff.a.opcodes[x], key
    return None
