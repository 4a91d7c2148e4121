"""Causes that are weight decay, which one side has and the other has not, or has elsewhere."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from xlagraph.canon.labels import clean
from xlagraph.cause.names import attribute_changes, differing_keys
from xlagraph.cause.slices import IDLE
from xlagraph.explain.names.merged import merged
from xlagraph.facts.training.cotangents import affected
from xlagraph.facts.training.weight_decay import Enters, decays
from xlagraph.facts.values.formulas import formulas, formulas_of_a_result
from xlagraph.facts.values.reductions import reduction_name
from xlagraph.facts.values.scalars import is_number
from xlagraph.hlo.shapes import read_shape
from xlagraph.message import A, B, count, say
from xlagraph.rules.pieces.call_option import CALL_OPTION
from xlagraph.rules.pieces.extra_subgraph import EXTRA_SUBGRAPH
from xlagraph.rules.pieces.replaced_subgraph import REPLACED_SUBGRAPH
from xlagraph.rules.training.optimizer_option import OPTIMIZER_OPTION

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from xlagraph.cause.model import Cause
    from xlagraph.diff import Diff
    from xlagraph.facts.training.weight_decay import Decay
    from xlagraph.graph import Module
    from xlagraph.message import Message

OF_UPDATES = (CALL_OPTION, EXTRA_SUBGRAPH, OPTIMIZER_OPTION)
REPLACED = (REPLACED_SUBGRAPH,)
"""What is asked where none of these has any decay."""
SLIGHT = 0.2
"""The part of what one side alone computes that may follow from another cause."""
WORDS = {
    Enters.GRADIENT: "into the gradient",
    Enters.WEIGHT: "into the weight alone",
}
MOST = 4
"""So many times as many weights that decay on one side alone as others are no group of them."""
OF_A_LOSS = 40
"""So many operations may a loss have that another edit than the decay has changed."""
FIX = say(
    "Adam with weight_decay adds the decayed weight to the gradient, and the moments see it; AdamW "
    "(decoupled_weight_decay) takes it from the weight alone. Use one of them, with the same "
    "weight_decay, in both."
)
SHORT_FIX = say("Keep one optimizer (Adam or AdamW), with one weight_decay.")
ON_FIX = say(
    "Give the same weight_decay, to the same weights, from the first step on: 0 leaves its term "
    "out of the graph, any other number is a parameter of it."
)
ON_SHORT_FIX = say("Keep weight_decay on, or off, from the first step on.")

GROUPS = (
    say(
        "One version gives some weights another group of parameters than the other: give each the "
        "same weight_decay in both."
    ),
    say("Give each weight the same weight_decay in both."),
)


def with_decay(diff: Diff, causes: Sequence[Cause]) -> list[Cause]:
    """The causes, those of optimizers as weight decay where that is all that they add.

    Where it moves from the gradient to the weight, two pieces are one cause of that.
    """
    a, b = decays(diff.a), decays(diff.b)
    with_any = [c for c in causes if c.proved and _has_any(c, a, b)]
    ways = ([c for c in with_any if c.kind in kinds] for kinds in (OF_UPDATES, REPLACED))
    own = next(filter(None, ways), None)
    if not own:
        return list(causes)
    others = [cause for cause in causes if cause not in own]
    claimed_a = _claimed(cause.a for cause in own) - _claimed(cause.a for cause in others)
    claimed_b = _claimed(cause.b for cause in own) - _claimed(cause.b for cause in others)
    behind = affected(diff.a, _parts(a), ()), affected(diff.b, _parts(b), ())
    before = _changed_before(diff, own[0], behind)
    beside = bool(before) or any(cause.proved for cause in others)
    is_all = _is_all(diff.a, a, claimed_a.intersection(diff.removed), beside=beside) and _is_all(
        diff.b, b, claimed_b.intersection(diff.added), beside=beside
    )
    told = _told(diff, a, b) if is_all else None
    if told is None:
        return list(causes)
    short, fix, short_fix = told
    words = {"title": short, "short": short, "fix": fix, "short_fix": short_fix}
    found = merged(causes, own[0], own, kind=OPTIMIZER_OPTION, **words)
    edit = _edit_before(diff, own[0], before, behind)
    return found if edit is None else [*found, edit]


def _changed_before(
    diff: Diff, cause: Cause, behind: tuple[set[int], set[int]]
) -> list[tuple[int, int]]:
    """What a piece with decay has otherwise before any gradient decays: another edit.

    A piece is told as a whole where what it gives out stands in one net of gradients.

    `behind`: what follows from the decay, in A and in B.
    """
    return [
        (x, y)
        for x, y, _ in diff.changes
        if x in cause.a and y in cause.b and x not in behind[0] and y not in behind[1]
    ]


def _edit_before(
    diff: Diff,
    cause: Cause,
    changed: Sequence[tuple[int, int]],
    behind: tuple[set[int], set[int]],
) -> Cause | None:
    """That other edit, by a formula or else by the first option that it changes; None without."""
    if not changed:
        return None
    own = cause.a - behind[0], cause.b - behind[1]
    least = frozenset(x for x, _ in changed), frozenset(y for _, y in changed)
    formula = formulas(diff, *least) or formulas_of_a_result(diff, *own, OF_A_LOSS)
    formula = formula or formulas(diff, *own, long=True)
    told = say(REPLACED_SUBGRAPH.short, ": ", formula.message) if formula else None
    told = told or _option(diff, changed)
    if told is None:
        return None
    return replace(
        cause,
        kind=REPLACED_SUBGRAPH,
        title=told,
        short=told,
        share=len(changed) / max(diff.differing, 1),
        a=least[0],
        b=least[1],
    )


def _option(diff: Diff, changed: Sequence[tuple[int, int]]) -> Message | None:
    """The first option that one became the other of: the axes of a sum before all that follows."""
    for x, y in sorted(changed, key=lambda pair: (diff.a.opcodes[pair[0]] != "reduce", pair)):
        one, other = diff.a.attributes[x], diff.b.attributes[y]
        if diff.a.opcodes[x] == diff.b.opcodes[y] and differing_keys(one, other):
            name = reduction_name(diff.a, x) or diff.a.opcodes[x]
            return say(f"{name}'s ", attribute_changes(one, other))
    return None


def _parts(found: dict[int, Decay]) -> set[int]:
    """The instructions by which weights decay."""
    return {i for decay in found.values() for i in (decay.product, decay.sum)}


def _claimed(sets: Iterable[frozenset[int]]) -> frozenset[int]:
    return frozenset[int]().union(*sets)


def _has_any(cause: Cause, a: dict[int, Decay], b: dict[int, Decay]) -> bool:
    """Whether a cause has any part of the decay, or may have: else it is an edit of its own."""
    return cause.kind is OPTIMIZER_OPTION or any(
        decay.product in claimed or decay.sum in claimed
        for claimed, found in ((cause.a, a), (cause.b, b))
        for decay in found.values()
    )


def _is_all(
    module: Module, found: dict[int, Decay], alone: frozenset[int], *, beside: bool
) -> bool:
    """Whether what one side alone computes is the decay of weights, and numbers for it.

    The square of a gradient that holds it is another one as well. `beside`: another cause is told,
    from which a little of it may follow, and all that no decay takes in or is taken in by.
    """
    parts = _parts(found)
    own = {i for i in alone if module.opcodes[i] not in IDLE and module.operands[i]}
    if beside and parts:
        own = _around(module, own, parts)
    squares = {i for i in own if len(set(module.operands[i])) == 1 < len(module.operands[i])}
    followed = {i for i in squares if parts.issuperset(module.operands[i])}
    further = [i for i in own - parts - followed if not _is_of_numbers(module, i)]
    return len(further) <= (SLIGHT * len(own) if beside else 0)


def _around(module: Module, own: set[int], parts: set[int]) -> set[int]:
    """Those of some instructions that others of them lead to, or from, the parts of a decay."""
    front = [*parts]
    seen = {*parts}
    for i in front:  # grows while it is read
        beside = {*module.operands[i], *module.users[i]} & own - seen
        seen |= beside
        front += beside
    return own & seen


def _is_of_numbers(module: Module, value: int) -> bool:
    """Whether a value is one number that is made of others, and of no tensor."""
    front = [value]
    for i in front:  # grows while it is read
        if not is_number(module, i):
            return False
        front += (o for o in module.operands[i] if o not in front)
    return True


def _told(
    diff: Diff, a: dict[int, Decay], b: dict[int, Decay]
) -> tuple[Message, Message, Message] | None:
    """In words how the weights decay, and what to do; None if they do so alike, or in many ways."""
    to_b, to_a = diff.match.to_b, diff.match.to_a
    entered = {
        x: (a[x].enters if x in a else None, b[to_b[x]].enters if to_b[x] in b else None)
        for x in {*a, *(to_a[y] for y in b)}
        if x >= 0
    }
    ways = {way for way in entered.values() if way[0] is not way[1]}
    (one, other) = ways.pop() if len(ways) == 1 else (None, None)
    if one and other:
        moved = say(f"weight decay goes {WORDS[one]} in ", A, f" and {WORDS[other]} in ", B)
        return say(moved, " (Adam, AdamW)"), FIX, SHORT_FIX
    if not (one or other):
        return None
    on = A if one else B
    found, lone = (a, {*diff.removed}) if one else (b, {*diff.added})
    if not any(decay.product in lone or decay.sum in lone for decay in found.values()):
        return None  # both sides compute it, and one takes it in otherwise
    alike = [x for x, way in entered.items() if way[0] is way[1]]
    if not alike:
        return say("weight decay is on in ", on, " only"), ON_FIX, ON_SHORT_FIX
    more = [x for x, way in entered.items() if way[0] is not way[1]]
    words = say("weight decay is on for ", _which(diff, more, alike), " in ", on, " only")
    return (words, ON_FIX, ON_SHORT_FIX) if len(more) >= MOST * len(alike) else (words, *GROUPS)


def _which(diff: Diff, more: Sequence[int], alike: Sequence[int]) -> str:
    """The weights that decay on one side alone, where others do on both."""
    vectors = [x for x in more if _is_vector(diff, x)]
    is_kind = len(vectors) == len(more) and not any(_is_vector(diff, x) for x in alike)
    weights = f"{count(len(more), 'tensor')} of {len(more) + len(alike)}"
    return f"{weights}, all of one dimension (biases, weights of norms)," if is_kind else weights


def _is_vector(diff: Diff, x: int) -> bool:
    return len(read_shape(clean(diff.a.shapes[x])).dimensions) == 1
