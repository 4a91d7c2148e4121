"""What an explanation of two modules says first: what differs, where, and what to change."""

from __future__ import annotations

from typing import TYPE_CHECKING

from xlagraph.cause.kinds import Section
from xlagraph.cause.verdict import Verdict
from xlagraph.explain.along import comes_along, takes_numbers_alone
from xlagraph.explain.names.layers import is_layer
from xlagraph.explain.names.merged import BRANCHES, has_code, is_order
from xlagraph.explain.names.mixed import MIXED
from xlagraph.explain.names.options.became import COMPARED
from xlagraph.explain.names.ordered import follows
from xlagraph.explain.names.training.means import DIVISOR
from xlagraph.explain.orders import as_compared
from xlagraph.explain.versions import TOLD_BY
from xlagraph.facts.pieces.moved_softmax import moved_softmax
from xlagraph.facts.program.keys import key_difference
from xlagraph.facts.program.versions import is_captured, nothing_tells
from xlagraph.facts.shapes.made_sizes import ALONG
from xlagraph.facts.shapes.products import is_typed, ratios
from xlagraph.facts.steps.sorts import sorts_of
from xlagraph.facts.training.moved_norms import moved_norms
from xlagraph.facts.values.elided import elided_constants, not_compared
from xlagraph.message import EMPTY, A, B, Change, count, join, say
from xlagraph.rules.distributed.averaged import AVERAGED_SUM
from xlagraph.rules.dtypes.dtype import DTYPE
from xlagraph.rules.inputs.added_input import ADDED_INPUT
from xlagraph.rules.inputs.live_tensors import LOGGED
from xlagraph.rules.module.header import DONORS
from xlagraph.rules.module.same_computation import OUTPUTS_MOVED
from xlagraph.rules.numbers.constant_value import CONSTANT_VALUE, NUMBER
from xlagraph.rules.order.output_order import OUTPUT_ORDER
from xlagraph.rules.order.reordered_operands import REORDERED_OPERANDS
from xlagraph.rules.pieces.early_execution import EARLY_EXECUTION
from xlagraph.rules.pieces.other_operand import OTHER_OPERAND
from xlagraph.rules.shapes.convolution_option import CONVOLUTION_OPTION
from xlagraph.rules.shapes.sizes import ATTRIBUTE, INPUT_SHAPE
from xlagraph.rules.training.averages import WIDER
from xlagraph.rules.training.clipping import CLIPPING
from xlagraph.rules.training.longer_backward import LONGER_BACKWARD
from xlagraph.rules.training.newly_updated import AVERAGE
from xlagraph.rules.training.optimizer_option import OPTIMIZER_OPTION
from xlagraph.rules.training.optimizer_state import NEWLY_UPDATED

if TYPE_CHECKING:
    from collections.abc import Sequence

    from xlagraph.cause.model import Cause, Context
    from xlagraph.cause.verdict import Place
    from xlagraph.diff import Diff
    from xlagraph.facts.steps.sorts import Sort
    from xlagraph.message import Message, Side

OWN_EDITS = (
    *TOLD_BY,
    ATTRIBUTE,
    AVERAGED_SUM,
    CLIPPING,
    CONSTANT_VALUE,
    CONVOLUTION_OPTION,
    DONORS,
    DTYPE,
    LONGER_BACKWARD,
    NEWLY_UPDATED,
    OTHER_OPERAND,
)
"""What is an edit of its own beside another one; sizes and the like may follow from that."""
REWIRED = (*BRANCHES, OTHER_OPERAND, OUTPUT_ORDER, REORDERED_OPERANDS)
"""As what a normalisation is told that stands at another place."""
NAMED = (ADDED_INPUT, AVERAGED_SUM, CLIPPING, DONORS, DTYPE, LONGER_BACKWARD, OPTIMIZER_OPTION)
"""Kinds that say what somebody did, however little of a difference that makes."""
MIN_BESIDE = 0.2
"""The part of a difference that a further cause is told by, and not only counted."""
MAX_BESIDE = 2
STAGES = " is a module after optimization, the other one before: what differs is XLA's work."
OF_ONE_STAGE = say("Compare two modules before optimization, or two after it.")
ORDER_NOTE = say(
    "XLA compiles each order by itself all the same: steps of one run should keep to one."
)
LOOK = say("Look at both side by side: xlagraph report A B.")


def pair_verdict(
    diff: Diff,
    causes: Sequence[Cause],
    left: int,
    place: Place,
    context_a: Context,
    context_b: Context,
) -> Verdict:
    """The main cause in three lines; `left` instructions have none, and begin at a place."""
    stay = f"{count(left, 'instruction')} {'stays' if left == 1 else 'stay'} unexplained."
    if scheduled := _scheduled(diff):
        further = (*((say(stay),) if left else ()), *not_compared(diff))
        return Verdict(what=say(scheduled, STAGES), fix=OF_ONE_STAGE, notes=further)
    if sorts := _sorts(diff, causes, (context_a, context_b)):
        return Verdict(what=say(sorts.what, "."), fix=sorts.fix)
    is_piece = bool(causes) and causes[0].kind in BRANCHES
    moved = (moved_norms(diff) or moved_softmax(diff)) if is_piece else None
    is_moved = bool(moved and all(cause.proved and cause.kind in REWIRED for cause in causes))
    notes = [
        say(moved.what.sentence, *((", ", moved.line) if moved.line else ()), ".")
        if moved and not is_moved
        else EMPTY,
        causes[0].seen.message if causes and causes[0].seen else EMPTY,
        *([] if is_moved else _others(diff, causes, (context_a, context_b))),
        say(stay) if left and causes else EMPTY,
        _one_hash(context_a, context_b),
        *not_compared(diff),
    ]
    where = (causes[0].place if causes else place).in_short
    return Verdict(
        what=say(moved.what.sentence, ".") if moved and is_moved else _what(diff, causes),
        where=say(moved.line) if moved and is_moved and moved.line else where,
        fix=causes[0].fix_in_short if causes else LOOK,
        notes=tuple(filter(None, notes)),
    )


def _sorts(diff: Diff, causes: Sequence[Cause], contexts: tuple[Context, Context]) -> Sort | None:
    """Which kinds of step both are, where nothing was recorded that tells more than the texts."""
    has_collectives = any(cause.kind.section is Section.COLLECTIVES for cause in causes)
    return None if is_captured(*contexts) or has_collectives else sorts_of(diff)


def _scheduled(diff: Diff) -> Side | None:
    """Which side alone XLA has optimized: it schedules what it is done with."""
    if diff.a.is_scheduled == diff.b.is_scheduled:
        return None
    return A if diff.a.is_scheduled else B


def _what(diff: Diff, causes: Sequence[Cause]) -> Message:
    if not causes:
        differs = f"{count(diff.differing, 'instruction')} differ"
        return say(f"{differs}{'s' if diff.differing == 1 else ''}, unexplained: no cause fits.")
    if causes[0].proved:
        return say(causes[0].in_short.sentence, ".")
    return say("Not explained for sure. Suspected: ", causes[0].in_short.clause, ".")


def _others(
    diff: Diff, causes: Sequence[Cause], contexts: tuple[Context, Context]
) -> list[Message]:
    """The other causes: edits that stand beside the first one, and what else there is.

    What is given back more because more is computed stands in the list of causes alone.
    """
    others = [c for c in causes[1:] if not _is_told(diff, causes[0], c)]
    own = [cause for cause in others if not comes_along(diff, cause, causes, contexts)]
    is_main = bool(causes) and causes[0].is_neutral
    forms = [] if is_main else [cause for cause in own if _is_form(diff, cause)]
    own = [cause for cause in own if cause not in forms]
    told = [cause for cause in own if _is_beside(diff, causes[0], cause)]
    beside = say("Beside it: ", join(map(_in_words, told), MAX_BESIDE, "; "), ".")
    further = _further([cause for cause in own if cause not in told])
    return [beside if told else EMPTY, further, _forms(forms)]


def _is_form(diff: Diff, cause: Cause) -> bool:
    """Whether a cause changes no value but for rounding: so it is with the order of terms."""
    return cause.is_neutral or is_order(diff, cause)


def _is_told(diff: Diff, first: Cause, cause: Cause) -> bool:
    """Whether a cause is told in the words of the first one, at its line: a loop's other turns.

    Or it is one number of that line's formula that one side computes, and the other is handed.
    """
    if _is_line_of_the_other(first, cause):
        return True
    if first.place.line != cause.place.line:
        return False
    is_alike = first.kind is cause.kind and str(first.in_short) == str(cause.in_short)
    if first.place.line is None:
        return is_alike
    is_number = cause.kind is EARLY_EXECUTION and first.proved and has_code(first)
    return is_alike or (is_number and takes_numbers_alone(diff, cause))


def _is_line_of_the_other(first: Cause, cause: Cause) -> bool:
    """Whether a piece stands in the line, of the other version's file, that a formula is told of.

    What one version computes there is another piece than what the other does.
    """
    one, other = first.place.line, cause.place.line
    if one is None or other is None or one.file == other.file or not has_code(first):
        return False
    is_line = (one.line, one.function) == (other.line, other.function)
    are_pieces = first.kind in BRANCHES and cause.kind in BRANCHES
    return is_line and are_pieces and first.proved and cause.proved


def _forms(causes: Sequence[Cause]) -> Message:
    """What is only written otherwise."""
    told = [cause for cause in causes if cause.place.line or has_code(cause)]
    words = join(dict.fromkeys(map(_in_words, told)), MAX_BESIDE, "; ")
    return say("Written otherwise, with the same values: ", words, ".") if told else EMPTY


def _in_words(cause: Cause) -> Message:
    line = (", ", cause.place.in_short) if cause.place.line else ()
    return say(cause.in_short.clause, *line)


def _is_beside(diff: Diff, first: Cause, cause: Cause) -> bool:
    """Whether a cause is another edit, where a proof takes more than one.

    An average of weights is one even where the rest is not explained for sure.
    """
    counts = cause.share >= MIN_BESIDE or _is_named(diff, first, cause)
    is_told = _is_average(cause) or (cause.proved and counts)
    is_own = cause.kind in OWN_EDITS or _is_along(cause) or _is_logged(cause)
    return is_told and is_own and _is_apart(first, cause) and not follows(diff, cause)


def _is_average(cause: Cause) -> bool:
    """Whether it is an average of weights, which serves nothing else: that is so without proof."""
    return str(cause.in_short).startswith((AVERAGE, WIDER))


def _is_named(diff: Diff, first: Cause, cause: Cause) -> bool:
    """Whether it is known what it is: it makes little of a difference, and yet is an edit.

    A number that has a name or that no size accounts for, a layer, or what a kind says; beside
    another edit a formula: what follows from a size may have one, and so may derivatives, which
    have no line.
    """
    is_number = cause.kind is CONSTANT_VALUE and not str(cause.in_short).startswith(NUMBER)
    is_formula = first.kind in OWN_EDITS and cause.kind in BRANCHES and not cause.place.is_near
    is_formula = is_formula and has_code(cause)
    is_number = is_number or _stands_alone(diff, first, cause)
    is_number = is_number or str(cause.in_short).startswith((COMPARED, DIVISOR, MIXED))
    is_number = is_number or _is_logged(cause)
    is_number = is_number or _is_along(cause)
    return is_number or is_formula or is_layer(cause) or cause.kind in NAMED


def _is_logged(cause: Cause) -> bool:
    """Whether it is what is computed for itself, as for a log."""
    return str(cause.in_short).endswith(LOGGED)


def _is_along(cause: Cause) -> bool:
    """Whether values are spread along another axis, which no other size makes them."""
    return str(cause.in_short).lower().startswith(ALONG)


def _stands_alone(diff: Diff, first: Cause, cause: Cause) -> bool:
    """Whether a number was typed and follows from no size that changed with the first cause."""
    changes = [part for part in cause.title.parts if isinstance(part, Change)]
    is_number = first.kind is INPUT_SHAPE and cause.kind is CONSTANT_VALUE and len(changes) == 1
    return is_number and is_typed(changes[0], ratios(diff, first.a))


def _is_apart(first: Cause, other: Cause) -> bool:
    """Whether another cause is one of its own: in other words, and not at the first one's line.

    Numbers, and what optimizers do, come twice of one edit; derivatives have no line.
    """
    is_kind = first.kind is not other.kind or other.kind in BRANCHES
    line = first.place.line
    is_line = line is None or other.place.line not in (None, line)
    return is_kind and is_line and other.in_short != first.in_short


def _further(causes: Sequence[Cause]) -> Message:
    """What else there is, in words; what is said of several once."""
    if not causes:
        return EMPTY
    first: dict[Message, Cause] = {}
    for cause in causes:
        first.setdefault(cause.in_short, cause)
    words = join(map(_in_words, first.values()), MAX_BESIDE, "; ")
    return say(f"{count(len(causes), 'further cause')}: ", words, ".")


def _one_hash(context_a: Context, context_b: Context) -> Message:
    """What it means that modules differ which torch_xla has taken for one graph."""
    known = context_a.key.get("graph_hash")
    if not known or known != context_b.key.get("graph_hash"):
        return EMPTY
    return say("Both have one graph hash, so that torch_xla compiles only the first of them.")


def same_verdict(
    diff: Diff, causes: Sequence[Cause], context_a: Context, context_b: Context
) -> Verdict:
    """What still differs between two modules that are the same computation."""
    parts = sorted(
        name
        for name in context_a.key.keys() & context_b.key.keys()
        if context_a.key[name] != context_b.key[name]
    )
    key = ", another cache key" if parts else ""
    notes: list[Message] = []
    same = "Same computation"
    if elided_constants(diff):
        same += " as far as the texts tell"
    orders = _orders(diff, causes)
    if orders and nothing_tells(diff, (context_a, context_b)):
        what = say(f"The {same[0].lower()}{same[1:]}; ", join(orders, between="; "), ".")
        notes.append(ORDER_NOTE)
    elif causes:
        titles = join((cause.title for cause in causes), len(causes), "; ")
        what = say(f"{same}{key}: ", titles, ".")
    elif parts:
        what = say(f"{same}{key}: {', '.join(parts)} differ.")
        notes.append(say(key_difference(context_a.key, context_b.key)))
    else:
        what = say(f"{same}: the modules differ in nothing that matters.")
    return Verdict(what, notes=tuple(filter(None, (*notes, *not_compared(diff)))))


def _orders(diff: Diff, causes: Sequence[Cause]) -> list[Message]:
    """What comes in another order, of two modules that are the same computation."""
    moved = sum(slot.a != slot.b for slot in as_compared(diff, causes).outputs)
    told = [cause.title for cause in causes if cause.is_exact]
    if any(cause.kind is OUTPUTS_MOVED for cause in causes):
        told.append(say(f"{count(moved, 'output')} come in another order"))
    return told
