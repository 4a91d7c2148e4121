"""Which of several causes of a pair comes first, and which follow from others."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from xlagraph.cause.names import differing_keys
from xlagraph.explain.names.merged import BRANCHES, has_code, merged
from xlagraph.facts.training.optimizers import is_optimizer_line
from xlagraph.facts.values.functions import in_functions
from xlagraph.message import count, say
from xlagraph.rules.dtypes.dtype import DTYPE, element_type
from xlagraph.rules.inputs.added_input import ADDED_INPUT
from xlagraph.rules.inputs.live_tensors import LIVE_TENSOR
from xlagraph.rules.numbers.constant_value import CONSTANT_VALUE
from xlagraph.rules.numbers.picked_value import PICKS
from xlagraph.rules.numbers.scalar_argument import SPECIAL_SCALAR
from xlagraph.rules.numbers.shared_scalar import SHARED_SCALAR
from xlagraph.rules.pieces.other_operand import OTHER_OPERAND
from xlagraph.rules.shapes.sizes import ATTRIBUTE, PYTHON_INDEX, PYTHON_SIZE
from xlagraph.rules.training.optimizer_option import OPTIMIZER_OPTION
from xlagraph.rules.training.repeated_pass import ACCUMULATION_COUNT, MICRO_BATCHES

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from xlagraph.cause.model import Cause
    from xlagraph.diff import Diff
    from xlagraph.message import SourceLine

OF_OPTIMIZER = (OPTIMIZER_OPTION, OTHER_OPERAND, SHARED_SCALAR, SPECIAL_SCALAR)
"""As what an optimizer is told that pairs amiss."""
MAIN = 0.5
"""The part of a difference that makes a cause the main one."""
MANY_PIECES = 3
"""So many pieces of one backward pass are one cause."""
BACKWARD = "The backward pass computes more in "
LOSS = "The loss is computed"
_TERMS = re.compile(r"(\w+) \+ \S")
_INNER_TERMS = re.compile(r"\((\w+) \+ [^()]*(?:\([^()]*\))?[^()]*\)")
"""The same of what is taken in further: ``(x + slice(z)) @ y``."""


def edited_first(diff: Diff, causes: Iterable[Cause]) -> tuple[Cause, ...]:
    """The causes, those last that follow from an edit that is told as well.

    So does the number of passes, and how what was computed along another axis is spread again. From
    a batch that is cut into another number of parts follow sizes and numbers. A function by name
    comes before pieces of which no formula tells anything: its derivatives may be among them.
    """
    found = sorted(causes, key=lambda cause: follows(diff, cause))
    if found and found[0].kind in BRANCHES and not has_code(found[0]):
        found.sort(key=lambda cause: not _names_functions(diff, cause))
    return tuple(found)


BAKED = (CONSTANT_VALUE, PYTHON_INDEX)
"""Numbers of which each value is a graph of its own."""


def options_first(diff: Diff, causes: Sequence[Cause]) -> list[Cause]:
    """The causes, an option of a reduction before a piece of which nothing is known.

    Where a proof fails, what the option leads to may be that piece. A ring buffer is rolled where
    its place to write is: that comes first, too. So does a value that Python picks, before the
    terms that gradients have more where it is computed; and a number or a size of which each value
    is a graph of its own, before a tensor that is kept in some steps, which makes one graph more;
    and what one side joins more, before the sizes that come of it.
    """
    first = next(iter(causes), None)
    if first is not None and first.kind is LIVE_TENSOR and first.proved:
        baked = (*BAKED, PYTHON_SIZE)
        return sorted(causes, key=lambda cause: not (cause.kind in baked and cause.proved))
    if first is not None and first.kind is PYTHON_SIZE and first.proved:
        return sorted(causes, key=lambda cause: not joins_more(diff, cause))
    if first is None or first.kind not in BRANCHES:
        return list(causes)
    if has_more_terms(first) and any(map(is_pick, causes)):
        return sorted(causes, key=lambda cause: not is_pick(cause))
    if first.proved and any("roll(" in text for text in first.in_short.code):
        return sorted(causes, key=lambda cause: not (cause.kind is PYTHON_INDEX and cause.proved))
    if first.proved or has_code(first):
        return list(causes)
    return sorted(causes, key=lambda cause: not _is_of_reduction(diff, cause))


def joins_more(diff: Diff, cause: Cause) -> bool:
    """Whether one side alone takes in tensors and joins others with them."""
    if cause.kind is not ADDED_INPUT or not cause.proved:
        return False
    sides = (diff.a, cause.a.intersection(diff.removed)), (diff.b, cause.b.intersection(diff.added))
    return any(module.opcodes[i] == "concatenate" for module, own in sides for i in own)


def loss_first(_: Diff, causes: Sequence[Cause]) -> list[Cause]:
    """The causes, where nothing is proved the formulas of the loss first.

    What else differs may be its derivatives, or how its parts are summed up.
    """
    if not causes or causes[0].proved or has_code(causes[0]):
        return list(causes)
    return sorted(causes, key=lambda cause: not (_is_of_loss(cause) and has_code(cause)))


def _is_of_loss(cause: Cause) -> bool:
    return cause.kind in BRANCHES and str(cause.in_short.sentence).startswith(LOSS)


def typed_inputs_first(diff: Diff, causes: Sequence[Cause]) -> list[Cause]:
    """The causes, of several types an input's before those that what is made of it takes."""
    if not causes or causes[0].kind is not DTYPE or not causes[0].proved:
        return list(causes)
    first = next((cause for cause in causes if types_of_inputs(diff, cause)), None)
    return sorted(causes, key=lambda cause: cause is not first)


def types_of_inputs(diff: Diff, cause: Cause) -> set[tuple[str, str]]:
    """The types that arrays among the inputs have in A and in B, where a proved cause is that."""
    if cause.kind is not DTYPE or not cause.proved:
        return set()
    origin = cause.evidence[0]
    pairs = ((x, y) for x in origin.a for y in origin.b if diff.match.to_b[x] in (y, -1))
    return {
        (own, other)
        for x, y in pairs
        if diff.a.opcodes[x] == diff.b.opcodes[y] == "parameter"
        and not diff.a.shapes[x].endswith("[]")
        and (own := element_type(diff.a.shapes[x])) != (other := element_type(diff.b.shapes[y]))
    }


def backward_first(_: Diff, causes: Sequence[Cause]) -> list[Cause]:
    """The causes; as one, and first, many pieces that a backward pass has more on one side.

    Where a gradient has further terms what an optimizer makes of it may pair amiss: that is told as
    options of the optimizer, and with the numbers that these take. So it is where something kept
    from a step before was never detached.
    """
    if any(cause.kind is DTYPE and cause.proved and cause.share >= MAIN for cause in causes):
        return list(causes)  # what is computed in another type has other derivatives
    more = [cause for cause in causes if cause.proved and _has_more(cause)]
    if len(more) < MANY_PIECES or len({str(cause.in_short) for cause in more}) > 1:
        return list(causes)
    main = more[0]
    behind = [
        cause
        for cause in causes
        if cause not in more and cause.proved and _is_of_optimizer(cause, main.place.line)
    ]
    short = say(main.in_short, f", in {count(len(more), 'place')}")
    found = merged(causes, main, [*more, *behind], short=short, title=short.sentence)
    return sorted(found, key=lambda cause: cause.in_short != short)


def _has_more(cause: Cause) -> bool:
    return cause.kind in BRANCHES and str(cause.in_short).startswith(BACKWARD)


def _is_of_optimizer(cause: Cause, near: SourceLine | None) -> bool:
    """Whether a cause is of options, numbers or operands of what an optimizer computes.

    It stands there, or at this line.
    """
    line = cause.place.line
    is_there = line is not None and (line == near or is_optimizer_line(line))
    return is_there and cause.kind in OF_OPTIMIZER


def _is_of_reduction(diff: Diff, cause: Cause) -> bool:
    return cause.kind is ATTRIBUTE and any(op == "reduce" for op, _ in options_of(diff, cause))


def _names_functions(diff: Diff, cause: Cause) -> bool:
    """Whether a cause is proved, and known functions tell it."""
    is_piece = cause.kind in BRANCHES and cause.proved and has_code(cause)
    found = in_functions(diff, cause.a, cause.b) if is_piece else None
    return found is not None and not found.is_one


def follows(diff: Diff, cause: Cause) -> bool | int:
    """Whether a cause follows from another one that is told, if any is; below 0 if they follow."""
    if MICRO_BATCHES in str(next(iter(cause.short.parts), "")):
        return -1
    options = options_of(diff, cause) if cause.kind is ATTRIBUTE else set()
    is_spread = bool(options) and all(opcode == "broadcast" for opcode, _ in options)
    return is_spread or cause.kind is ACCUMULATION_COUNT


def is_pick(cause: Cause) -> bool:
    """Whether Python is proved to pick another value."""
    return cause.proved and str(cause.in_short).startswith(PICKS)


def has_more_terms(cause: Cause) -> bool:
    """Whether a formula tells that terms are added to a value on one side only."""
    told = cause.in_short.code
    if len(told) != 2 or not cause.proved:
        return False
    one, other = sorted(told, key=len)
    found = _TERMS.match(other)
    return (found is not None and found[1] == one) or _INNER_TERMS.sub(r"\1", other) == one


def options_of(diff: Diff, cause: Cause) -> set[tuple[str, str]]:
    """The opcodes that have other options, with the names of these."""
    pairs = ((x, y) for x in cause.a if (y := diff.match.to_b[x]) in cause.b)
    return {
        (diff.a.opcodes[x], key)
        for x, y in pairs
        for key in differing_keys(diff.a.attributes[x], diff.b.attributes[y])
    }
