"""A backward pass through one step more: what is carried from step to step is never detached."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import TYPE_CHECKING

from xlagraph.canon.labels import bare_shape
from xlagraph.cause.model import Evidence
from xlagraph.cause.names import parameter_name
from xlagraph.cause.rule import Rule
from xlagraph.cause.sources import at, is_forward, where
from xlagraph.facts.pieces.bypass import Bypass, bypass_finding, bypasses
from xlagraph.facts.training.cotangents import affected
from xlagraph.facts.training.updates import updates
from xlagraph.facts.values.telling import HEAVY, PLAIN
from xlagraph.message import count, join, say
from xlagraph.rules.training.longer_backward import LONGER_BACKWARD, MAX_TERMS

if TYPE_CHECKING:
    from collections.abc import Hashable, Sequence

    from xlagraph.cause.case import Case, SideView
    from xlagraph.cause.finding import Finding
    from xlagraph.graph import Module
    from xlagraph.message import SourceLine

ALIKE = 0.9
"""This part of a piece has copies in the other module, if it is a step's that this one has too."""
FIX = say(
    "Detach what is carried from step to step before the next step uses it (.detach()): autograd "
    "keeps the steps that it was computed in, with retain_graph=True all of them, and each "
    "backward pass goes through one more."
)
SHORT = say("The backward pass goes through more steps before it")
SHORT_FIX = say("Detach what is carried from step to step before it is used.")


def find(case: Case) -> list[Finding]:
    """Pieces that compute, with tensors kept from a step before, what the module computes anyway.

    They add terms to gradients alone. A pass over another batch has a forward pass as well, and is
    told before.
    """
    return [_finding(found) for found in bypasses(case) if _is_of_history(found)]


def _is_of_history(found: Bypass) -> bool:
    kept = _kept(found)
    return bool(kept) and _adds_to_gradients(found) and _is_a_copy(found)


def _kept(found: Bypass) -> list[int]:
    """The tensors that one side alone takes, if it only reads them, for this piece."""
    more, less, module = found.more, found.less, found.more.module
    inputs = {*more.open_lone()} & {*module.entry_computation.parameters}
    tensors = [i for i in inputs if not bare_shape(module, i).endswith("[]")]
    lone = {*less.open_lone()} & {*less.module.entry_computation.parameters}
    is_whole = found.piece.issuperset(inputs) and not lone
    is_read = updates(module).keys().isdisjoint(tensors)
    return sorted(tensors) if is_whole and is_read else []


def _adds_to_gradients(found: Bypass) -> bool:
    """Whether each value that it ends in sums up what the other side's does, and more."""
    module = found.more.module
    sums = {(edge.value(found.more), old) for edge, old in found.uses.items()}
    return all(_terms(module, old) < _terms(module, value) for value, old in sums)


def _terms(module: Module, value: int) -> Counter[int]:
    """What a value is the sum of."""
    terms, stack = Counter[int](), [value]
    for i in stack:  # grows while it is read
        if module.opcodes[i] == "add" and len(stack) < MAX_TERMS:
            stack += module.operands[i]
        else:
            terms[i] += 1
    return terms


def _is_a_copy(found: Bypass) -> bool:
    """Whether nearly all that tells it from others stands in the other module as well."""
    opcodes, labels = found.more.module.opcodes, found.more.matched.labels
    in_less = _counts(found.less, found.less.matched.labels)
    telling = [i for i in found.piece if opcodes[i] not in PLAIN]
    copies = [i for i in telling if labels[i] in in_less]
    heavy = any(opcodes[i] in HEAVY for i in copies)
    return heavy and len(copies) >= ALIKE * len(telling)


def _counts(view: SideView, labels: Sequence[Hashable]) -> Counter[Hashable]:
    live = view.matched.live
    return Counter(label for i, label in enumerate(labels) if live[i])


def _finding(found: Bypass) -> Finding:
    more, less = found.more, found.less
    lines = _carried(found) or found.lines
    kept = _kept(found)
    title = say(
        *("the backward pass goes through one step more in ", more.side, at(lines), ": "),
        *(more.side, " computes ", found.words, " once more than ", less.side, ", with "),
        f"{count(len(kept), 'tensor')} that are kept from a step before (",
        join(parameter_name(more, p) for p in kept),
        ")",
    )
    text = say("nearly all of these instructions stand in ", less.side, " too, for other tensors")
    finding = bypass_finding(found, LONGER_BACKWARD, title, Evidence(text), fix=FIX, lines=lines)
    return replace(finding, short=SHORT, short_fix=SHORT_FIX)


def _carried(found: Bypass) -> tuple[SourceLine, ...]:
    """Where the next value of a tensor is made that the gradients of the piece follow from.

    New weights follow from these.
    """
    module = found.more.module
    values = {module.outputs[k] for some in updates(module).values() for k in some}
    front = sorted(values - affected(module, found.piece, ()))
    carried = [i for i in front if not found.piece.isdisjoint(affected(module, [i], ()))]
    return tuple(line for line in where(module, carried) if is_forward(line))


RULE = Rule(
    name="longer-history",
    kinds=(),
    find=find,
    after=("repeated-pass",),
    before=("added-input",),
)
