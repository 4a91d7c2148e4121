"""What is said of two modules that give the same values, with tensors in the other's form."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from xlagraph.cause.case import Case
from xlagraph.cause.verdict import Verdict
from xlagraph.explain.names.options.by_hand import is_unsure
from xlagraph.explain.values import REWRITTEN, but_for, is_form, may_be_versions, unset, where
from xlagraph.facts.training.updates import updates
from xlagraph.message import A, B, Code, count, join, say
from xlagraph.rules.inputs.added_input import ADDED_INPUT
from xlagraph.rules.module.header import ALIAS
from xlagraph.rules.shapes.sizes import INPUT_SHAPE
from xlagraph.rules.training.optimizer_state import OPTIMIZER_STATE

if TYPE_CHECKING:
    from xlagraph.cause.model import Context, Explanation
    from xlagraph.evaluate.forms.packed import PackedSame
    from xlagraph.evaluate.forms.packing import Placed
    from xlagraph.message import Message

OF_INPUTS = frozenset({ADDED_INPUT, ALIAS, INPUT_SHAPE, OPTIMIZER_STATE})
"""Causes that may say in which tensors something is held."""
MAX_TOLD = 4


def in_other_tensors(explanation: Explanation, contexts: tuple[Context, Context]) -> Explanation:
    """The explanation, as of the same computation where one holds tensors in another form.

    Joined, stacked, cut or turned; and where outputs are others in another form.
    """
    diff = explanation.diff
    if explanation.same or is_unsure(explanation.verdict):
        return explanation
    if not may_be_versions(diff, contexts):
        return explanation
    others = (cause for cause in explanation.causes if cause.kind not in OF_INPUTS)
    if explanation.proved and not all(is_form(diff, cause) for cause in others):
        return explanation
    from xlagraph.evaluate.forms.packed import same_packed  # numpy is loaded where it is needed

    packed = same_packed(diff, (updates(diff.a), updates(diff.b)))
    if packed is None or packed.found.more_in_a or packed.found.more_in_b:
        return explanation
    if explanation.proved and not packed.packing and len(explanation.causes) < REWRITTEN:
        return explanation
    told = replace(explanation, evaluated=packed.found.points, same=True)
    verdict = _verdict(explanation, packed, contexts)
    return replace(told, verdict=verdict, causes=(), unexplained_a=(), unexplained_b=())


def _verdict(
    explanation: Explanation, packed: PackedSame, contexts: tuple[Context, Context]
) -> Verdict:
    found = packed.found
    what = say(
        but_for(found),
        where(Case.of(packed.diff, *contexts), found),
        ", for equal weights" if packed.packing else "",
        f": evaluated at {found.points} random inputs, ",
        *(A, " and ", B, f" agree in all {count(len(found.outputs), 'output')}."),
    )
    notes = []
    if packed.packing:
        forms = join(map(_form, packed.packing), MAX_TOLD, "; ")
        notes.append(say("Tensors are held in another form: ", forms, "."))
    aside = [
        say(count(n, "output"), " of ", side, " that others are in another form")
        for side, n in zip((A, B), packed.dropped, strict=True)
        if n
    ]
    for side, n in zip((A, B), packed.counters, strict=True):
        if n:
            aside.append(say(count(n, "number"), " that ", side, " only counts on"))
    if any(cause.kind is ALIAS for cause in explanation.causes):
        aside.append(say("which inputs the outputs are written into"))
    if aside:
        notes.append(say("Set aside: ", join(aside), "."))
    notes += unset(Case.of(packed.diff, *contexts), found)
    differing = count(explanation.diff.differing, "instruction")
    notes.append(say(f"{differing} are written otherwise; XLA compiles both forms, once each."))
    return Verdict(what, notes=tuple(notes))


def _form(placed: Placed) -> Message:
    side, form, _ = placed
    own, other = ((A, B), (B, A))[side]
    parts = join(
        [Code(f"{n} x {shape}" if n > 1 else shape) for shape, n in form.parts.items()], MAX_TOLD
    )
    is_one = len(form.pieces) == 1
    how = " turned" if is_one and form.is_turned else "" if is_one else " in one"
    return say(Code(form.whole), " of ", own, " is ", parts, " of ", other, how)
