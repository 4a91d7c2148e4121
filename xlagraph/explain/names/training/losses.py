"""Causes that tell of how a training step computes its loss."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from xlagraph.canon.labels import bare_shape
from xlagraph.explain.names.merged import BRANCHES, has_code, merged
from xlagraph.facts.layers.cross_entropy import cross_entropies
from xlagraph.facts.training.loss_functions import NamedLoss, loss_by_name, of_loss
from xlagraph.facts.training.losses import FLOATS, is_of_loss, made_of_numbers
from xlagraph.facts.values.formulas import formulas
from xlagraph.facts.values.telling import opcodes_in_words
from xlagraph.message import A, B, Code, say
from xlagraph.rules.numbers.constant_value import CONSTANT_VALUE
from xlagraph.rules.pieces.extra_subgraph import EXTRA_SUBGRAPH
from xlagraph.rules.pieces.replaced_subgraph import REPLACED_SUBGRAPH

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence, Set

    from xlagraph.cause.model import Cause
    from xlagraph.diff import Diff
    from xlagraph.graph import Module

OF_ONE = (*BRANCHES, CONSTANT_VALUE)
"""What another loss is told as where nothing says that it is one."""
MAX_MADE = 100
"""Instructions that a derivative's beginning is made of, at most."""
OTHER_LOSS = "The loss is another function: "
WORDS = {
    "A value is computed": "The loss is computed",
    "a value is computed": "the loss is computed",
    "The same value is computed": "The loss is computed",
    "A piece is computed": "A piece of the loss is computed",
}
"""Words that speak of any value, and those that speak of the loss."""


def with_loss(diff: Diff, causes: Sequence[Cause]) -> list[Cause]:
    """The causes, those of the loss in its words, and as one where it is known by name.

    The derivative of another loss is another one as well: what differs there is no further cause.
    """
    of = [c for c in causes if c.kind in BRANCHES and is_of_loss(diff, c.a, c.b)]
    a, b = (loss_by_name(diff.a), loss_by_name(diff.b)) if of else (None, None)
    if bool(a) != bool(b):  # one of them may be one of classes, whose probabilities go together
        a, b = a or _of_classes(diff.a, diff.b), b or _of_classes(diff.b, diff.a)
    if not (a and b) or a.name == b.name or not of[0].proved:
        return _with_starts(diff, causes, of)
    within = of_loss(diff.a, a), of_loss(diff.b, b)
    own = [c for c in causes if c.proved and c.kind in OF_ONE and _is_within(diff, c, *within)]
    own = own if of[0] in own else [of[0]]
    told = say(OTHER_LOSS, Code(a.name), " became ", Code(b.name))
    return merged(causes, of[0], own, kind=REPLACED_SUBGRAPH, title=told, short=told)


def _of_classes(module: Module, other: Module) -> NamedLoss | None:
    """The cross entropy over classes that a module alone has, or several of these."""
    found = [] if cross_entropies(other) else cross_entropies(module)
    names = {layer.name for layer in found}
    if len(names) != 1:
        return None
    return NamedLoss(names.pop(), frozenset().union(*(layer.members for layer in found)))


def _with_starts(diff: Diff, causes: Sequence[Cause], of: Sequence[Cause]) -> list[Cause]:
    """The causes, those of the loss in its words; with one what its derivative begins with.

    A mean's derivative begins with ones divided by their number, without a line: they are no
    further cause.
    """
    main = next((cause for cause in of if cause.proved), None)
    starts = [
        cause
        for cause in causes
        if main
        and cause is not main
        and cause.proved
        and cause.kind in BRANCHES
        and _is_of_numbers(diff, cause)
    ]
    told = [
        _in_words(diff, cause) if cause in of and cause not in starts else cause for cause in causes
    ]
    if not (main and starts):
        return told
    worded = told[[*causes].index(main)]
    return merged(told, worded, [worded, *starts])


def _is_of_numbers(diff: Diff, cause: Cause) -> bool:
    """Whether all that one side alone computes for a cause is made of numbers, and of no tensor."""
    sides = (diff.a, cause.a & {*diff.removed}), (diff.b, cause.b & {*diff.added})
    own = [(module, i) for module, some in sides for i in some]
    return bool(own) and all(_makes_numbers(module, some) for module, some in sides)


def _makes_numbers(module: Module, own: Collection[int]) -> bool:
    front = [*own]
    for i in front:  # grows while it is read
        if module.opcodes[i] == "parameter" and not module.shapes[i].endswith("[]"):
            return False
        if len(front) > MAX_MADE:
            return False
        front += (o for o in module.operands[i] if o not in front)
    return True


def _is_within(diff: Diff, cause: Cause, a: Set[int], b: Set[int]) -> bool:
    """Whether a cause tells of what is computed from the prediction and the target alone."""
    return _all_within(diff.a, cause.a, a) and _all_within(diff.b, cause.b, b)


def _all_within(module: Module, piece: Collection[int], within: Set[int]) -> bool:
    """Whether a piece is within this, or takes its values from there."""
    return all(i in within or not within.isdisjoint(module.operands[i]) for i in piece)


def _in_words(diff: Diff, cause: Cause) -> Cause:
    """The cause as one of the loss."""
    found = formulas(diff, cause.a, cause.b) if cause.proved else None
    if found and found.is_of_update:
        return replace(cause, short=say(cause.in_short, ", and the loss in another way"))
    return replace(cause, short=cause.in_short.respelled(WORDS))


def with_terms(diff: Diff, causes: Sequence[Cause]) -> list[Cause]:
    """The causes; a piece that one side alone has is a further term where a number takes it on.

    As a penalty that is added to the loss, with its derivatives.
    """
    return [_as_term(diff, cause) for cause in causes]


def _as_term(diff: Diff, cause: Cause) -> Cause:
    is_piece = cause.kind is EXTRA_SUBGRAPH and cause.proved and not cause.short
    if not is_piece or has_code(cause):
        return cause
    sides = (
        (A, diff.a, diff.b, cause.a.intersection(diff.removed), diff.match.to_b),
        (B, diff.b, diff.a, cause.b.intersection(diff.added), diff.match.to_a),
    )
    for side, module, other, own, partners in sides:
        is_derived = any(_is_taken_on(module, i, partners) for i in own)
        if is_derived and any(_adds_term(module, i, own, partners) for i in own):
            does = opcodes_in_words(module, own, other)
            told = say(side, " adds a term to the loss, with its derivatives: ", does)
            return replace(cause, title=told, short=told)
    return cause


def _is_taken_on(module: Module, i: int, partners: Sequence[int]) -> bool:
    """Whether an array goes into one that both sides have, as a further term of a gradient does."""
    is_array = not module.shapes[i].endswith("[]")
    users = (user for user in module.users[i] if partners[user] >= 0)
    return is_array and any(module.shapes[user] == module.shapes[i] for user in users)


def _adds_term(module: Module, i: int, own: Set[int], partners: Sequence[int]) -> bool:
    """Whether a number that both sides have gets one more, which sums up what one side computes."""
    if module.opcodes[i] != "add" or bare_shape(module, i) not in FLOATS:
        return False
    ways = [o for o in module.operands[i] if o in own]
    known = [o for o in module.operands[i] if partners[o] >= 0]
    if len(ways) != 1 or len(known) != 1:
        return False
    sums = (made_of_numbers(module, ways) & own, made_of_numbers(module, known))
    return all(any(module.opcodes[o] == "reduce" for o in some) for some in sums)
