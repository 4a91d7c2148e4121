"""Causes that are layers in place of others: each by name, and apart from others beside it."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from xlagraph.canon.labels import bare_shape
from xlagraph.cause.model import Evidence
from xlagraph.cause.slices import made_of
from xlagraph.cause.sources import where
from xlagraph.facts.layers.attention import attention_by_hand
from xlagraph.facts.layers.cross_entropy import SMOOTHED
from xlagraph.facts.layers.means import FLOATS, MASKED
from xlagraph.facts.layers.norms import RMS
from xlagraph.facts.layers.rotary import HALVES
from xlagraph.facts.layers.statistics import TOGETHER
from xlagraph.facts.layers.swapped import (
    CROSS_ENTROPY,
    MEAN,
    NORM,
    POOLING,
    ROTARY,
    STATISTICS,
    swapped,
)
from xlagraph.facts.program.arguments import is_jitted
from xlagraph.facts.values.evaluated import OPENED
from xlagraph.facts.values.formulas import formulas, is_of_derivative, with_further
from xlagraph.facts.values.scalars import SPREADS
from xlagraph.facts.values.telling import computed_with
from xlagraph.message import A, B, Code, say
from xlagraph.rules.inputs.added_input import ADDED_INPUT
from xlagraph.rules.numbers.constant_value import CONSTANT_VALUE
from xlagraph.rules.numbers.scalar_argument import STATIC_ARGUMENT
from xlagraph.rules.order.reordered_operands import REORDERED_OPERANDS
from xlagraph.rules.pieces.extra_subgraph import BRANCH_FIX, EXTRA_SUBGRAPH
from xlagraph.rules.pieces.other_operand import OTHER_OPERAND
from xlagraph.rules.pieces.other_reduction import OTHER_REDUCTION
from xlagraph.rules.pieces.replaced_subgraph import REPLACED_SUBGRAPH
from xlagraph.rules.shapes.sizes import ATTRIBUTE, PYTHON_INDEX
from xlagraph.rules.training.clipping import CLIPPING

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Sequence

    from xlagraph.cause.model import Cause
    from xlagraph.diff import Diff
    from xlagraph.facts.layers.swapped import Swap
    from xlagraph.graph import Module
    from xlagraph.message import Message, Side

OTHER_NORM = "A norm is another one"
OWN = (REPLACED_SUBGRAPH, EXTRA_SUBGRAPH, ADDED_INPUT, CLIPPING)
"""What a layer in place of another is told as where nothing says so."""
BESIDE = (
    ATTRIBUTE,
    CONSTANT_VALUE,
    OTHER_OPERAND,
    OTHER_REDUCTION,
    PYTHON_INDEX,
    REORDERED_OPERANDS,
    STATIC_ARGUMENT,
)
"""What its own options, numbers and parts are told as."""
IDLE = SPREADS | {"constant", "parameter", "pad"}
"""Of a layer what others may have as well, and that tells nothing."""
MAX_CITED = 50
MAX_FORMULA = 64
"""Characters of a formula beside a layer."""
FEATURES = {True: "halves of the features", False: "features that are neighbours"}


def with_layers(diff: Diff, causes: Sequence[Cause]) -> list[Cause]:
    """The causes; those by name that are a layer in place of another, each for itself.

    A layer's own numbers and slices are no further causes.
    """
    told = list(causes)
    owned: dict[int, list[Swap]] = {}
    for swap in swapped(diff) if any(cause.kind in (*OWN, *BESIDE) for cause in causes) else []:
        home = _home(diff, told, swap)
        if home is not None:
            owned.setdefault(home, []).append(swap)
    parts: dict[int, list[Cause]] = {}
    gone: set[int] = set()
    for k, own in owned.items():
        behind = [
            j
            for j, cause in enumerate(told)
            if j not in owned and j not in gone and any(_is_part(diff, cause, s) for s in own)
        ]
        gone.update(behind)
        parts[k] = _apart(diff, _joined(told[k], [told[j] for j in behind]), own)
    return [part for k, cause in enumerate(told) if k not in gone for part in parts.get(k, [cause])]


def with_attention(diff: Diff, cause: Cause) -> Cause:
    """The cause, as another way to compute attention where no formula tells it."""
    if cause.kind is not REPLACED_SUBGRAPH or cause.short.code:
        return cause
    found = attention_by_hand(diff, cause.a, cause.b)
    return replace(cause, title=found, short=found) if found else cause


def is_layer(cause: Cause) -> bool:
    """Whether a cause is a layer in place of another one, by name."""
    is_told = cause.kind is REPLACED_SUBGRAPH and bool(cause.short)
    return is_told and cause.evidence[0].text == cause.short


def _joined(cause: Cause, parts: Sequence[Cause]) -> Cause:
    """A cause with all that others account for."""
    return replace(
        cause,
        a=cause.a.union(*(part.a for part in parts)),
        b=cause.b.union(*(part.b for part in parts)),
        share=cause.share + sum(part.share for part in parts),
    )


def _home(diff: Diff, causes: Sequence[Cause], swap: Swap) -> int | None:
    """The cause that a layer's operations differ by."""
    shared = [
        (cause.kind in OWN, len(_telling(diff.a, cause.a & swap.in_a)), -k)
        for k, cause in enumerate(causes)
        if cause.kind in (*OWN, *BESIDE)
        and (_telling(diff.a, cause.a & swap.in_a) or _telling(diff.b, cause.b & swap.in_b))
    ]
    return -max(shared)[2] if shared else None


def _telling(module: Module, instructions: Iterable[int]) -> set[int]:
    return {i for i in instructions if module.opcodes[i] not in IDLE}


def _is_part(diff: Diff, cause: Cause, swap: Swap) -> bool:
    """Whether all that a cause tells of is in the layer, or its derivative in other operations."""
    if cause.kind is REPLACED_SUBGRAPH:
        has_formula = bool(cause.short.code)
        touches = _telling(diff.a, cause.a & swap.in_a) or _telling(diff.b, cause.b & swap.in_b)
        is_known = not has_formula or _is_in_entry(diff, cause.a, cause.b)
        return bool(touches) and is_known and not _is_forward(diff, cause.a, cause.b)
    if cause.kind not in BESIDE:
        return False
    in_a, in_b = cause.a <= swap.in_a, cause.b <= swap.in_b
    return bool(cause.a and in_a) or bool(cause.b and in_b)


def _is_in_entry(diff: Diff, a: Collection[int], b: Collection[int]) -> bool:
    """Whether all of this stands where it is known what the forward pass is."""
    entries = diff.a.entry_computation, diff.b.entry_computation
    return all(
        entry.start <= i < entry.stop
        for entry, own in zip(entries, (a, b), strict=True)
        for i in own
    )


def _is_forward(diff: Diff, a: Collection[int], b: Collection[int]) -> bool:
    """Whether the forward pass has any of this, or may have: what it is has to be known."""
    own = _own(diff)
    sides = (diff.a, own[0].intersection(a)), (diff.b, own[1].intersection(b))
    for module, differing in sides:
        forward = forward_pass(module)
        telling = {i for i in _telling(module, differing) if not _is_of_constants(module, i)}
        if telling and (not forward or forward & telling):
            return True
    return False


def _apart(diff: Diff, cause: Cause, swaps: Sequence[Swap]) -> list[Cause]:
    """A cause as the layers that it tells of, and what else the forward pass has, if anything."""
    own = _own(diff)
    sides = _shares(diff.a, (cause.a, own[0]), [s.in_a for s in swaps])
    sides_b = _shares(diff.b, (cause.b, own[1]), [s.in_b for s in swaps])
    parts = [
        _part(diff, cause, _words(diff, swap), swap, (sides[k], sides_b[k]))
        for k, swap in enumerate(swaps)
    ]
    rest = sides[-1], sides_b[-1]
    parts.sort(key=lambda part: -part.share)
    if _is_forward(diff, *rest):
        words = _formula_of(diff, *rest) or computed_with(diff, *rest) or cause.in_short
        share = _share(cause, *rest)
        return [*parts, replace(cause, title=words, short=words, a=rest[0], b=rest[1], share=share)]
    first = parts[0]
    return [
        replace(
            first,
            a=first.a | rest[0],
            b=first.b | rest[1],
            share=cause.share - sum(part.share for part in parts[1:]),
            evidence=(*first.evidence, *(e for e in cause.evidence if e.a or e.b)),
        ),
        *parts[1:],
    ]


def _formula_of(diff: Diff, a: frozenset[int], b: frozenset[int]) -> Message | None:
    """What the forward pass computes otherwise beside the layers, where a short formula tells."""
    found = formulas(diff, a, b)
    told = next(iter(with_further(diff, a, b, found)), None) if found else None
    if told is None or is_of_derivative(told) or max(len(told.a), len(told.b)) > MAX_FORMULA:
        return None
    return say(REPLACED_SUBGRAPH.short, ": ", told.message)


def _own(diff: Diff) -> tuple[set[int], set[int]]:
    """What differs on each side by itself, and not by what it takes in alone."""
    own = [change for change in diff.changes if {*change.fields} - {"operands"}]
    return (
        {*diff.removed, *(change.a for change in own)},
        {*diff.added, *(change.b for change in own)},
    )


def _shares(
    module: Module, piece: tuple[frozenset[int], set[int]], layers: Sequence[frozenset[int]]
) -> list[frozenset[int]]:
    """What of a piece hangs together with each layer, and last what does with none.

    What only takes in what differs is passed upwards alone, and number by number: two edits may
    meet there.
    """
    own, by_itself = piece
    owner = {i: k for k, layer in enumerate(layers) for i in sorted(layer & own)}
    stack = list(owner)
    for i in stack:  # grows while it is read
        below = module.operands[i] if i in by_itself else ()
        for near in (*module.users[i], *below):
            if near in own and near not in owner:
                owner[near] = owner[i]
                stack += [near] if near in by_itself or module.opcodes[near] in OPENED else []
    numbers = range(len(layers))
    found = [frozenset(i for i in own if owner.get(i) == k) for k in numbers]
    return [*found, own - owner.keys()]


def _part(
    diff: Diff,
    cause: Cause,
    words: Message,
    swap: Swap,
    own: tuple[frozenset[int], frozenset[int]],
) -> Cause:
    cited = tuple(sorted(own[0] & swap.in_a)), tuple(sorted(own[1] & swap.in_b))
    lines = where(diff.b, _telling(diff.b, cited[1])) or where(diff.a, _telling(diff.a, cited[0]))
    line = next((line for line in lines if not line.is_library), None)
    place = cause.place.at(line)
    return replace(
        cause,
        kind=REPLACED_SUBGRAPH,
        title=words,
        short=words,
        fix=say(BRANCH_FIX),
        short_fix=say(),
        evidence=(Evidence(words, cited[0][:MAX_CITED], cited[1][:MAX_CITED], lines),),
        share=_share(cause, *own),
        a=own[0],
        b=own[1],
        place=place,
    )


def _share(cause: Cause, a: Collection[int], b: Collection[int]) -> float:
    return cause.share * (len(a) + len(b)) / max(len(cause.a) + len(cause.b), 1)


def forward_pass(module: Module) -> set[int]:
    """What a loss is made of: of the numbers that a module gives the one that takes the least."""
    numbers = [i for i in module.outputs if bare_shape(module, i) in FLOATS]
    return min((made_of(module, i) for i in numbers), key=len, default=set())


def _is_of_constants(module: Module, i: int) -> bool:
    """Whether a number is made of constants alone, as one over a count."""
    if not bare_shape(module, i).endswith("[]"):
        return False
    return all(module.operands[k] or module.opcodes[k] == "constant" for k in made_of(module, i))


def _words(diff: Diff, swap: Swap) -> Message:
    became = (Code(swap.a), " became ", Code(swap.b))
    if swap.family == POOLING:
        return say("Pooling is another function: ", *became)
    if swap.family == ROTARY:
        pairs = FEATURES[swap.a == HALVES], FEATURES[swap.b == HALVES]
        return say(
            f"A rotation, as of rotary embeddings, pairs {pairs[0]} in ", A, f", {pairs[1]} in ", B
        )
    if swap.family == CROSS_ENTROPY:
        return say("The labels of a cross entropy are smoothed in ", _side(swap, SMOOTHED), " only")
    if swap.family == MEAN:
        masked = _side(swap, MASKED)
        told = ("A mean is over all values in ", masked.other)
        return say(*told, ", and over those alone that a mask keeps in ", masked)
    if swap.family == STATISTICS:
        together = _side(swap, TOGETHER)
        told = ("A norm takes its statistics over the devices together in ", together)
        return say(*told, ", over each device's own batch in ", together.other, *_as_by(diff))
    if swap.family == NORM:
        return say(f"{OTHER_NORM}: {swap.a} became {swap.b}", *_mean_words(swap))
    return say(REPLACED_SUBGRAPH.short, ": ", *became)


def _as_by(diff: Diff) -> tuple[str | Code, ...]:
    """What makes norms take their statistics over devices."""
    return ", as by ", Code("axis_name" if is_jitted(diff.a) else "SyncBatchNorm")


def _side(swap: Swap, name: str) -> Side:
    return A if swap.a == name else B


def _mean_words(swap: Swap) -> tuple[str, ...]:
    """Which side leaves the mean in, where that is what two norms differ by."""
    if RMS not in (swap.a, swap.b):
        return ()
    return (", which subtracts no mean",) if swap.b == RMS else (", which subtracts the mean",)
