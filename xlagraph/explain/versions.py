"""What is said of a pair of modules that is no pair of steps, or that need not be one."""

from __future__ import annotations

from dataclasses import replace
from functools import wraps
from typing import TYPE_CHECKING, Protocol

from xlagraph.cause.model import Evidence
from xlagraph.cause.names import attribute_changes, differing_keys, short_shape
from xlagraph.cause.rule import left_out
from xlagraph.cause.sources import where
from xlagraph.explain.names.crossed import with_crossed
from xlagraph.explain.names.folded import with_folded
from xlagraph.explain.names.joined import with_joined
from xlagraph.explain.names.keys import with_split_keys
from xlagraph.explain.names.layers import with_attention, with_layers
from xlagraph.explain.names.merged import BRANCHES
from xlagraph.explain.names.mixed import with_mixed
from xlagraph.explain.names.modes import DROPOUT, with_mode
from xlagraph.explain.names.moved import with_moved
from xlagraph.explain.names.options.arguments import (
    JITTED_FIX,
    arguments_first,
    with_added,
    with_argument,
    with_types,
)
from xlagraph.explain.names.options.axes import with_axes
from xlagraph.explain.names.options.became import with_place, with_size, with_values
from xlagraph.explain.names.options.exchanged import with_exchanged
from xlagraph.explain.names.options.joins import with_joins, with_lists, with_products
from xlagraph.explain.names.options.labels import with_labels
from xlagraph.explain.names.options.numbers import with_special
from xlagraph.explain.names.options.pads import with_pads
from xlagraph.explain.names.options.sorts import with_cut, with_order
from xlagraph.explain.names.options.variance import with_variance
from xlagraph.explain.names.ordered import (
    BACKWARD,
    backward_first,
    edited_first,
    loss_first,
    options_first,
    typed_inputs_first,
)
from xlagraph.explain.names.packed import with_packed
from xlagraph.explain.names.passed import with_passed
from xlagraph.explain.names.promoted import with_promoted, with_result_type
from xlagraph.explain.names.repeated import with_repeated
from xlagraph.explain.names.starts import with_start
from xlagraph.explain.names.sums import with_sums
from xlagraph.explain.names.taken import with_forward, with_reused, with_taken
from xlagraph.explain.names.training.clipped import (
    with_clipped,
    with_clipped_updates,
    with_fewer_clipped,
    with_late_clip,
    with_lone_clip,
    with_scaled_norm,
)
from xlagraph.explain.names.training.decay import with_decay
from xlagraph.explain.names.training.detached import cut_with, used_at, with_detached
from xlagraph.explain.names.training.estimators import with_estimator
from xlagraph.explain.names.training.losses import with_loss, with_terms
from xlagraph.explain.names.training.means import with_divisor, with_mean
from xlagraph.explain.names.training.optimizers import with_optimizer
from xlagraph.explain.names.training.options import with_state
from xlagraph.explain.names.training.schedules import with_schedule
from xlagraph.explain.names.training.slow import with_slow
from xlagraph.explain.names.training.trained import with_statistics, with_trained
from xlagraph.explain.names.turns import with_turns, with_unrolled
from xlagraph.explain.orders import in_words_of_orders
from xlagraph.explain.places import before_place
from xlagraph.facts.pieces.casts import BY_AUTOCAST
from xlagraph.facts.program.arguments import is_jitted
from xlagraph.facts.program.calls_apart import line_apart
from xlagraph.facts.program.versions import are_versions
from xlagraph.facts.shapes.made_sizes import FIX as OPTION_FIX
from xlagraph.facts.shapes.made_sizes import made_by
from xlagraph.facts.values.formulas import (
    LONG,
    formulas,
    formulas_of_a_result,
    is_of_derivative,
    with_further,
)
from xlagraph.facts.values.functions import in_functions
from xlagraph.facts.values.notation import names_in
from xlagraph.message import EMPTY, A, B, Code, HloName, Side, SourceLine, join, say
from xlagraph.rules.dtypes.dtype import DTYPE
from xlagraph.rules.inputs.added_input import ADDED_INPUT
from xlagraph.rules.inputs.initial_state import INITIAL_STATE, MAKES
from xlagraph.rules.inputs.second_input import SECOND_INPUT
from xlagraph.rules.inputs.tied_weights import TIED_WEIGHTS
from xlagraph.rules.numbers.constant_value import CONSTANT_VALUE
from xlagraph.rules.numbers.random_numbers import DROPOUT_SHORT
from xlagraph.rules.order.rewired_operations import CONNECTED
from xlagraph.rules.order.turned_operations import SHORT as TURNED_SHORT
from xlagraph.rules.pieces.call_option import CALL_OPTION
from xlagraph.rules.pieces.extra_subgraph import BACKWARD_SHORT, EXTRA_SUBGRAPH, PENALTY
from xlagraph.rules.pieces.other_operand import AFTER_UPDATE, OTHER_OPERAND
from xlagraph.rules.pieces.replaced_subgraph import REPLACED_SUBGRAPH
from xlagraph.rules.shapes.convolution_option import CONVOLUTION_OPTION
from xlagraph.rules.shapes.sizes import ATTRIBUTE, PYTHON_INDEX, PYTHON_SIZE
from xlagraph.rules.training.clipping import CLIPPING
from xlagraph.rules.training.longer_backward import LONGER_BACKWARD
from xlagraph.rules.training.optimizer_option import OPTIMIZER_OPTION, STATE_SHORT
from xlagraph.rules.training.optimizer_state import OPTIMIZER_STATE, SKIPPED_BLOCK

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from xlagraph.cause.model import Cause, Context
    from xlagraph.cause.verdict import Place
    from xlagraph.diff import Diff
    from xlagraph.facts.values.formulas import Formulas
    from xlagraph.graph import Module
    from xlagraph.message import Message, Part

    class Name(Protocol):
        """What calls the causes of a pair by the name of an edit."""

        __name__: str

        def __call__(self, diff: Diff, causes: tuple[Cause, ...], /) -> Sequence[Cause]:
            """The causes as they are called."""
            ...


TOLD_BY = (*BRANCHES, ADDED_INPUT, OPTIMIZER_OPTION)
"""Somebody has edited a formula: it says more than the words of a kind."""
TOLD_OPTIONS = frozenset({"convolution", "pad", "reduce-window", "slice"})
"""What has an option of its own that no formula shows."""
EDITED = (
    *TOLD_BY,
    CLIPPING,
    LONGER_BACKWARD,
    OPTIMIZER_STATE,
    OTHER_OPERAND,
    PYTHON_INDEX,
    PYTHON_SIZE,
    SECOND_INPUT,
    SKIPPED_BLOCK,
)
"""What two versions have otherwise because one of them was edited: there is no step to mend."""
OF_UPDATES = (OPTIMIZER_OPTION, EXTRA_SUBGRAPH)
"""What may be one option of an optimizer beside another cause of the kind."""
MAX_FORMULA, MAX_BESIDE_WORDS = 110, 64
"""Characters of a formula in a verdict, alone and behind words."""
TINY = 10
"""Characters of a formula that says nothing without what its letters stand for."""
MAX_LEGEND = 5
FIX = say(
    "The two versions of the program differ here: keep one of them. To go from one to the other "
    "costs one compile."
)
SHORT_FIX = say("Keep one of the two versions; a change costs one compile.")
MADE = say("What one side makes from constants is an input of the other")
STATE_FIX = say("Make it before the loop and sync, or keep one of two versions.")
OTHER_FORM = say("A value is computed in another form, equal but for rounding")
ELSE = say(" Where one program is to do both: ")
OR_FIX = say(" If these are two versions of a program, keep one of them: it costs one compile.")
DROPOUT_FIX = say("Keep one mode (train(), eval()); let a changing p be a tensor.")
_STATE = "One version has weights or optimizer state that the other has not"
OF_VERSIONS = {
    "in some steps": "in one version",
    "in every step": "in both versions",
    "is switched on": "differs",
    "in all steps": "in both versions",
    "Some steps use tensors that others do not": "One version uses tensors that the other does not",
    "Optimizer state came into being": _STATE,
    "optimizer state came into being": _STATE.lower(),
    "Some steps compute more passes than others": "One version computes more passes than the other",
}
"""Words that speak of steps, and those that speak of versions."""
OF_BOTH = {
    "in some steps": "on one side",
    ", with torch.where for example": ", or keep one version",
}
"""Those that fit steps and versions alike."""
FIRST_NAMES: tuple[Name, ...] = (
    with_types,
    with_result_type,
    with_promoted,
    with_trained,
    with_slow,
    with_statistics,
    with_lists,
    with_special,
)
"""What a pair of steps is told by as well."""


def of_a_pair(
    diff: Diff, causes: tuple[Cause, ...], contexts: tuple[Context, Context]
) -> tuple[Cause, ...]:
    """The causes in words that fit two versions of a program, where they may be of two versions."""
    causes = _by_names(diff, causes, FIRST_NAMES)
    versions = are_versions(diff, contexts)
    if versions is False:
        return causes
    orders = in_words_of_orders(diff, causes, is_sure=bool(versions))
    if orders is not None:
        return tuple(_worded(cause, is_sure=bool(versions)) for cause in orders)
    told = _by_names(diff, causes, _names())
    if not versions:
        return tuple(_worded(cause, is_sure=False) for cause in told)
    worded = edited_first(diff, (_worded(cause, is_sure=True) for cause in told))
    return _by_names(diff, worded, (_with_new_values, _each(_called_apart)))


def _names() -> tuple[Name, ...]:
    """By which edits the causes of two versions are called, in the order in which they are asked.

    What is of one cause comes before what takes several for one, and sees what is told by then.
    """
    return (
        *(with_pads, with_joins, with_products, with_axes, _each(with_order), with_cut),
        *(_each(with_exchanged), _each(_with_side), _each(_with_formulas), _each(with_values)),
        *(_each(_without_steps), _each(_with_functions)),
        _each(with_turns),
        *(with_optimizer, with_state, with_decay, _each(_with_maker), with_loss, with_terms),
        *(with_layers, _each(with_attention), with_estimator),
        *(with_repeated, with_schedule, _each(with_divisor), with_mean, with_mode, with_mixed),
        *(with_crossed, with_sums, with_joined, with_clipped, with_lone_clip, with_fewer_clipped),
        *(with_scaled_norm, with_clipped_updates, with_late_clip, with_detached, with_packed),
        with_start,
        *(with_passed, options_first, _each(with_taken), _each(with_forward), with_reused),
        *(_each(with_place), with_moved, with_split_keys, with_folded, backward_first),
        *(loss_first, _each(with_unrolled), _each(with_variance), _each(with_labels)),
        *(_each(with_argument), arguments_first, typed_inputs_first, _each(with_size)),
    )


def _by_names(diff: Diff, causes: Iterable[Cause], names: Iterable[Name]) -> tuple[Cause, ...]:
    """The causes as they are called by these names; one that fails is left out, with a warning."""
    told = tuple(causes)
    for name in names:
        try:
            told = tuple(name(diff, told))
        except Exception as error:  # noqa: BLE001 - whatever it stumbles on
            left_out(f"calling causes by {name.__name__}", error)
    return told


def _each(name: Callable[[Diff, Cause], Cause]) -> Name:
    """What calls each cause by itself, as a name of all."""

    @wraps(name)
    def named(diff: Diff, causes: Sequence[Cause]) -> list[Cause]:
        return [name(diff, cause) for cause in causes]

    return named


def _called_apart(diff: Diff, cause: Cause) -> Cause:
    """The cause at the call that differs, where its line is run by calls that do not."""
    line = cause.place.line
    if line is None or line.is_library or cause.kind not in (*BRANCHES, OTHER_OPERAND):
        return cause
    changed = [c.b for c in diff.changes], [c.a for c in diff.changes]
    sides = (
        (diff.b, cause.b, {*changed[0], *diff.added}),
        (diff.a, cause.a, {*changed[1], *diff.removed}),
    )
    found = (line_apart(module, piece, differing, line) for module, piece, differing in sides)
    apart = next(filter(None, found), None)
    if apart is None:
        return cause
    cited = Evidence(
        say("part of what runs this line does not differ; what this call runs does"),
        sources=(apart,),
    )
    place = replace(cause.place, line=apart, stack=(), source=())
    return replace(cause, place=place, evidence=(*cause.evidence, cited))


def _worded(cause: Cause, *, is_sure: bool) -> Cause:
    if not is_sure and cause.kind not in BRANCHES:
        return cause
    words = OF_VERSIONS if is_sure else OF_BOTH
    fix, short_fix = cause.fix, cause.fix_in_short
    if not is_sure:
        fix = say(fix, OR_FIX)
    elif cause.kind in (ATTRIBUTE, CONSTANT_VALUE, CONVOLUTION_OPTION, DTYPE, TIED_WEIGHTS):
        fix, short_fix = say(FIX, ELSE, fix), SHORT_FIX
    elif cause.kind in EDITED:
        fix, short_fix = FIX, SHORT_FIX
    return replace(
        cause,
        title=cause.title.respelled(words),
        short=cause.in_short.respelled(words),
        fix=fix.respelled(words),
        short_fix=short_fix.respelled(words),
    )


def _with_formulas(diff: Diff, cause: Cause) -> Cause:
    """The cause with what each side computes, if a short formula tells that."""
    if cause.kind is ATTRIBUTE and not cause.short:
        return _with_result(diff, cause)
    is_told = cause.kind in TOLD_BY and (cause.proved or cause.kind in BRANCHES)
    is_long = not cause.short
    found = formulas(diff, cause.a, cause.b, long=is_long) if is_told else None
    is_result = is_told and found is None
    found = formulas_of_a_result(diff, cause.a, cause.b) if is_result else found
    if found is None:
        return with_added(diff, cause) if cause.kind is ADDED_INPUT else cause
    is_turned = cause.short == TURNED_SHORT and str(cause.title).startswith(CONNECTED)
    is_piece = cause.kind in BRANCHES
    is_branch = is_piece and (is_long or is_turned or is_result)
    told = with_further(diff, cause.a, cause.b, found) if is_piece else (found,)
    if not told:
        return cause
    found = told[0]
    if cause.kind is ADDED_INPUT and is_of_derivative(found):
        return with_added(diff, cause)
    cited = _evidence(found, cause.evidence[0].sources)
    cause = replace(cause, evidence=(cited, *cause.evidence))
    has_words = cause.short_fix and cause.kind is not EXTRA_SUBGRAPH and not is_turned
    is_of_backward = str(cause.short).startswith((BACKWARD, PENALTY))
    has_words = (has_words and cause.short != STATE_SHORT) or is_of_backward
    most = MAX_FORMULA if is_long else MAX_BESIDE_WORDS
    is_too_long = max(len(found.a), len(found.b)) > most
    if is_too_long and not has_words and cause.kind is ADDED_INPUT:
        return with_added(diff, cause)
    if has_words or is_too_long:
        return cause
    first = say(REPLACED_SUBGRAPH.short) if is_branch else cause.in_short
    beside = _beside(diff, cause, told)
    is_option = cause.kind is ADDED_INPUT and is_jitted(diff.a)
    short_fix = JITTED_FIX if is_option else cause.short_fix
    short = say(first, ": ", found.message, *beside)
    return replace(cause, short=short, short_fix=short_fix)


def _beside(diff: Diff, cause: Cause, told: Sequence[Formulas]) -> tuple[Part, ...]:
    """What is said behind a formula: a further one, what its letters are, or an option."""
    found, *others = told
    short = (one for one in others if max(len(one.a), len(one.b)) <= MAX_BESIDE_WORDS)
    further = [one for one in short if one[:2] != found[:2]]
    if further:
        return tuple(part for one in further for part in (", and ", *one.message.parts))
    is_tiny = max(len(found.a), len(found.b)) <= TINY
    if is_tiny and names_in(found.a) != names_in(found.b):
        named = (say(Code(name), f" is {what}") for name, what in found.legend)
        return (", where ", *join(named, MAX_LEGEND, " and ").parts)
    return _option_beside(diff, cause)


def _with_result(diff: Diff, cause: Cause) -> Cause:
    """The cause of a reduction as what it makes of the loss, where that is another formula."""
    reduces = any(diff.a.opcodes[x] == "reduce" for x in cause.a)
    found = formulas_of_a_result(diff, cause.a, cause.b, 2 * LONG) if reduces else None
    if found is None or not cause.proved or max(len(found.a), len(found.b)) > MAX_FORMULA:
        return cause
    told = say(REPLACED_SUBGRAPH.short, ": ", found.message)
    cited = _evidence(found, cause.evidence[0].sources)
    return replace(cause, short=told, evidence=(cited, *cause.evidence))


def _option_beside(diff: Diff, cause: Cause) -> tuple[Part, ...]:
    """The first option that differs within what a formula tells one value of."""
    a, b, to_b = diff.a, diff.b, diff.match.to_b
    for x in sorted(cause.a):
        if to_b[x] in cause.b and a.opcodes[x] == b.opcodes[to_b[x]] in TOLD_OPTIONS:
            one, other = a.attributes[x], b.attributes[to_b[x]]
            if differing_keys(one, other):
                return ("; ", a.opcodes[x], " has ", *attribute_changes(one, other).parts)
    return ()


def _without_steps(_: Diff, cause: Cause) -> Cause:
    """The cause of a first value as no part of a warm-up: B's step need not be the next one."""
    if cause.kind is not INITIAL_STATE:
        return cause
    is_made = any(isinstance(part, str) and MAKES in part for part in cause.title.parts)
    if cause.short_fix or not is_made:
        return cause
    short = cause.title if cause.place.line is None else MADE
    return replace(cause, short=short, short_fix=STATE_FIX, expected=False)


def _with_functions(diff: Diff, cause: Cause) -> Cause:
    """The cause with the functions that both sides compute, where these have names."""
    found = in_functions(diff, cause.a, cause.b) if cause.kind in BRANCHES else None
    if found is None:
        return cause
    if not found.is_one:
        became = (Code(found.a), " became ", Code(found.b))
        return replace(cause, short=say(REPLACED_SUBGRAPH.short, ": ", *became))
    told = (Code(found.form_a), " in ", A, ", ", Code(found.form_b), " in ", B)
    return replace(cause, short=say(OTHER_FORM, ": ", *told))


def _with_side(diff: Diff, cause: Cause) -> Cause:
    """The cause with the side that clips, calls for more, or uses tensors after their update.

    Or on which gradients flow further.
    """
    if cause.kind is LONGER_BACKWARD and not cause.short:
        return replace(cause, short=_cut(diff, cause), place=_used(diff, cause))
    side = next(iter(cause.title.parts))
    if cause.kind is CALL_OPTION and isinstance(side, Code) and not cause.short:
        more = next(part for part in cause.title.parts if isinstance(part, Side))
        told = ("A call of ", side, " computes more in ", more, " than in ", more.other)
        return replace(cause, short=say(*told))
    is_block = cause.kind is SKIPPED_BLOCK and not cause.short
    if is_block or BY_AUTOCAST in str(cause.short):
        return replace(cause, short=say(*before_place(cause.title)))
    if not isinstance(side, Side):
        return cause
    if cause.kind is CLIPPING:
        clipped = str(cause.in_short).removesuffix(" in some steps only")
        return replace(cause, short=say(clipped, " in ", side, " only"))
    *first, last = cause.short.parts or ("",)
    if isinstance(last, str) and last.endswith(AFTER_UPDATE):
        last = last.removesuffix("some steps")
        return replace(cause, short=say(*first, last, side, ", before it in ", side.other))
    if cause.short == BACKWARD_SHORT:
        return replace(cause, short=say(BACKWARD, side))
    if cause.short != DROPOUT_SHORT:
        return cause
    short = say(DROPOUT, side, " only: p is 0 in ", side.other, ", or eval() was called")
    return replace(cause, short=short, short_fix=DROPOUT_FIX)


def _cut(diff: Diff, cause: Cause) -> Message:
    """Which side cuts the gradients, at which value where that is known, and with what."""
    more, less, *_ = (part for part in cause.title.parts if isinstance(part, Side))
    place = _named(diff.a if more is A else diff.b, cause.title)
    cuts = (", which cuts them", place, ", as by ", cut_with(diff.a))
    return say("gradients flow further in ", more, " than in ", less, *cuts)


def _used(diff: Diff, cause: Cause) -> Place:
    """The place of a cause, at the line that computes with what further gradients are made of."""
    if not cause.place.is_near:
        return cause.place
    own_b = cause.b.intersection(diff.added)
    line = used_at(diff.b, own_b) or used_at(diff.a, cause.a.intersection(diff.removed))
    return replace(cause.place, line=line, stack=(), source=()) if line else cause.place


def _named(module: Module, title: Message) -> Message:
    """The value of the entry computation that a title names, with its shape; empty without one."""
    entry = module.entry_computation
    places = {module.names[i]: i for i in range(entry.start, entry.stop)}
    for part in title.parts:
        if isinstance(part, HloName) and part.name in places:
            return say(" at ", part, f" {short_shape(module, places[part.name])}")
    return EMPTY


def _with_maker(diff: Diff, cause: Cause) -> Cause:
    """The cause with the operation that gives other sizes of the same values, if there is one."""
    is_size = cause.kind is PYTHON_SIZE and not cause.short
    made = made_by(diff, [(x, diff.match.to_b[x]) for x in cause.a]) if is_size else None
    if made is None:
        return cause
    lines = tuple(line for line in where(diff.b, [made.b]) if not line.is_library)
    return replace(
        cause,
        title=say(made.what, "; from there sizes differ").sentence,
        short=made.what,
        fix=OPTION_FIX,
        short_fix=OPTION_FIX,
        evidence=(Evidence(made.what, (made.a,), (made.b,), lines), *cause.evidence),
        place=cause.place.at(next(iter(lines), None)),
    )


def _with_new_values(diff: Diff, causes: tuple[Cause, ...]) -> tuple[Cause, ...]:
    """The causes, the first with further new values of parameters that are computed otherwise.

    Weight decay that goes into the gradient on one side, and scales the weight on the other, is
    two pieces, and one option.
    """
    first, *others = causes or (None,)
    if first is None or not (first.proved and first.kind in OF_UPDATES and len(others)):
        return causes
    own = formulas(diff, first.a, first.b)
    same = (cause for cause in others if cause.kind is first.kind)
    found = (formulas(diff, cause.a, cause.b) for cause in same)
    further = next((one for one in found if one and "p" in dict(one.legend)), None)
    if own is None or further is None or max(map(len, (*own[:2], *further[:2]))) > MAX_BESIDE_WORDS:
        return causes
    return replace(first, short=say(first.in_short, ", and ", further.message)), *others


def _evidence(found: Formulas, sources: tuple[SourceLine, ...]) -> Evidence:
    named = join((say(Code(name), f" is {what}") for name, what in found.legend), MAX_LEGEND)
    where = say(", where ", named) if found.legend else EMPTY
    told = say(A, " computes ", Code(found.a), ", ", B, " ", Code(found.b), where)
    return Evidence(told, sources=sources)
