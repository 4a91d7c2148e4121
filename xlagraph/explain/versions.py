"""What is said of a pair of modules that is no pair of steps, or that need not be one."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from xlagraph.cause.model import Evidence
from xlagraph.cause.names import differing_keys
from xlagraph.facts.formulas import formulas
from xlagraph.facts.versions import are_versions
from xlagraph.message import EMPTY, A, B, Change, Code, Message, Side, join, say
from xlagraph.rules.added_input import ADDED_INPUT
from xlagraph.rules.batch_norm_momentum import MOMENTUM_SHORT
from xlagraph.rules.constant_value import CONSTANT_VALUE
from xlagraph.rules.extra_subgraph import BACKWARD_SHORT, EXTRA_SUBGRAPH
from xlagraph.rules.optimizer_option import OPTIMIZER_OPTION
from xlagraph.rules.random_numbers import DROPOUT_SHORT
from xlagraph.rules.replaced_subgraph import REPLACED_SUBGRAPH
from xlagraph.rules.sizes import ATTRIBUTE

if TYPE_CHECKING:
    from collections.abc import Mapping

    from xlagraph.cause.model import Cause, Context
    from xlagraph.diff import Diff
    from xlagraph.facts.formulas import Formulas
    from xlagraph.message import SourceLine

BRANCHES = (EXTRA_SUBGRAPH, REPLACED_SUBGRAPH)
"""What control flow in Python makes, or somebody who edits the program."""
TOLD_BY = (*BRANCHES, ADDED_INPUT, OPTIMIZER_OPTION)
"""Somebody has edited a formula: it says more than the words of a kind."""
MAX_FORMULA = 64
"""Characters of a formula in a verdict."""
MAX_VALUE = 16
"""Characters of a value of an option in a verdict."""
MAX_LEGEND = 5
FIX = say(
    "The two versions of the program differ here: keep one of them. To go from one to the other "
    "costs one compile."
)
SHORT_FIX = say("Keep one of the two versions; a change costs one compile.")
ELSE = say(" Where one program is to do both: ")
OR_FIX = say(" If these are two versions of a program, keep one of them: it costs one compile.")
OF_VERSIONS = {
    "in some steps": "in one version",
    "in every step": "in both versions",
    "is switched on": "differs",
    "Some steps use tensors that others do not": "One version uses tensors that the other does not",
}
"""Words that speak of steps, and those that speak of versions."""
OF_BOTH = {
    "in some steps": "on one side",
    ", with torch.where for example": ", or keep one version",
}
"""Those that fit steps and versions alike."""


def of_a_pair(
    diff: Diff, causes: tuple[Cause, ...], contexts: tuple[Context, Context]
) -> tuple[Cause, ...]:
    """The causes in words that fit two versions of a program, where they may be of two versions."""
    versions = are_versions(diff, contexts)
    if versions is False:
        return causes
    told = (_with_values(diff, _with_formulas(diff, _with_side(cause))) for cause in causes)
    return tuple(_worded(cause, is_sure=versions is True) for cause in told)


def _worded(cause: Cause, *, is_sure: bool) -> Cause:
    if not is_sure and cause.kind not in BRANCHES:
        return cause
    words = OF_VERSIONS if is_sure else OF_BOTH
    fix, short_fix = cause.fix, cause.fix_in_short
    if not is_sure:
        fix = say(fix, OR_FIX)
    elif cause.kind in (ATTRIBUTE, CONSTANT_VALUE):
        fix, short_fix = say(FIX, ELSE, fix), SHORT_FIX
    elif cause.kind in TOLD_BY:
        fix, short_fix = FIX, SHORT_FIX
    return replace(
        cause,
        title=_respelled(cause.title, words),
        short=_respelled(cause.in_short, words),
        fix=_respelled(fix, words),
        short_fix=_respelled(short_fix, words),
    )


def _respelled(message: Message, words: Mapping[str, str]) -> Message:
    parts = list(message.parts)
    for old, new in words.items():
        parts = [part.replace(old, new) if isinstance(part, str) else part for part in parts]
    return Message(tuple(parts))


def _with_formulas(diff: Diff, cause: Cause) -> Cause:
    """The cause with what each side computes, if a short formula tells that."""
    is_told = cause.kind in TOLD_BY and cause.proved
    found = formulas(diff, cause.a, cause.b) if is_told else None
    if found is None:
        return cause
    cited = _evidence(found, cause.evidence[0].sources)
    cause = replace(cause, evidence=(cited, *cause.evidence))
    has_words = cause.short_fix and cause.kind is not EXTRA_SUBGRAPH
    has_words = has_words or cause.short == BACKWARD_SHORT
    if has_words or max(len(found.a), len(found.b)) > MAX_FORMULA:
        return cause
    is_branch = cause.kind in BRANCHES and not cause.short
    first = say(REPLACED_SUBGRAPH.short) if is_branch else cause.in_short
    return replace(cause, short=say(first, ": ", Code(found.a), " became ", Code(found.b)))


def _with_side(cause: Cause) -> Cause:
    """The cause with the side on which dropout is on."""
    side = next(iter(cause.title.parts)) if cause.short == DROPOUT_SHORT else None
    if not isinstance(side, Side):
        return cause
    return replace(cause, short=say("Dropout is on in ", side, " only, as by train() and eval()"))


def _with_values(diff: Diff, cause: Cause) -> Cause:
    """The cause with the two values of an option or a number, where one became one other."""
    changes = [part for part in cause.title.parts if isinstance(part, Change)]
    is_momentum = cause.short == MOMENTUM_SHORT
    if (cause.short and not is_momentum) or len(changes) != 1:
        return cause
    if max(map(len, changes[0][:2])) > MAX_VALUE:
        return cause
    change = changes[0]._replace(became="became")
    if is_momentum:
        return replace(cause, short=say("BatchNorm's momentum is baked into the graph: ", change))
    if cause.kind is CONSTANT_VALUE:
        return replace(cause, short=say("a number baked into the graph: ", change))
    options = _options(diff, cause) if cause.kind is ATTRIBUTE else set()
    if len(options) != 1:
        return cause
    ((opcode, key),) = options
    return replace(cause, short=say(f"{opcode}'s {key}: ", change))


def _options(diff: Diff, cause: Cause) -> set[tuple[str, str]]:
    """The opcodes that have other options, with the names of these."""
    pairs = ((x, y) for x in cause.a if (y := diff.match.to_b[x]) in cause.b)
    return {
        (diff.a.opcodes[x], key)
        for x, y in pairs
        for key in differing_keys(diff.a.attributes[x], diff.b.attributes[y])
    }


def _evidence(found: Formulas, sources: tuple[SourceLine, ...]) -> Evidence:
    named = join((say(Code(name), f" is {what}") for name, what in found.legend), MAX_LEGEND)
    where = say(", where ", named) if found.legend else EMPTY
    told = say(A, " computes ", Code(found.a), ", ", B, " ", Code(found.b), where)
    return Evidence(told, sources=sources)
