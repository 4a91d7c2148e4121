"""Causes that come along with another one, and are no news beside it."""

from __future__ import annotations

import re
from collections import Counter
from typing import TYPE_CHECKING, NamedTuple

from xlagraph.canon.labels import bare_shape, clean
from xlagraph.cause.kinds import Section
from xlagraph.cause.slices import made_of
from xlagraph.cause.sources import knows_lines
from xlagraph.explain.names.layers import OTHER_NORM
from xlagraph.explain.names.merged import BRANCHES, is_order, pairs_of
from xlagraph.explain.names.ordered import (
    BACKWARD,
    MAIN,
    has_more_terms,
    is_pick,
    joins_more,
    types_of_inputs,
)
from xlagraph.explain.names.turns import TURNS
from xlagraph.facts.pieces.casts import OF_ARRAYS
from xlagraph.facts.program.arguments import is_jitted
from xlagraph.facts.program.versions import are_versions, nothing_tells
from xlagraph.facts.shapes.advice import SIZED
from xlagraph.facts.shapes.made_sizes import ALONG
from xlagraph.facts.values.results import forward_pass
from xlagraph.facts.values.scalars import SPREADS, through
from xlagraph.facts.values.telling import RANDOM
from xlagraph.hlo.shapes import read_shape
from xlagraph.message import A, B
from xlagraph.rules.dtypes.dtype import DTYPE, element_type
from xlagraph.rules.inputs.live_tensors import BEGUN, COPIED, LIVE_TENSOR, LOGGED
from xlagraph.rules.inputs.tied_weights import TIED_WEIGHTS
from xlagraph.rules.module.header import DONORS
from xlagraph.rules.numbers.constant_value import CONSTANT_VALUE
from xlagraph.rules.numbers.scalar_argument import DECAY_OF_ONE, RATE_OF_ZERO, SPECIAL_SCALAR
from xlagraph.rules.numbers.shared_scalar import SHARED_SCALAR
from xlagraph.rules.order.output_order import OUTPUT_ORDER
from xlagraph.rules.order.reordered_operands import REORDERED_OPERANDS
from xlagraph.rules.pieces.extra_subgraph import PENALTY
from xlagraph.rules.pieces.other_operand import OTHER_OPERAND, OTHER_UPDATES
from xlagraph.rules.pieces.replaced_subgraph import CACHE
from xlagraph.rules.shapes.growing_input import GROWING_INPUT
from xlagraph.rules.shapes.layout import LAYOUT
from xlagraph.rules.shapes.sizes import ATTRIBUTE, INPUT_SHAPE, PYTHON_INDEX, PYTHON_SIZE
from xlagraph.rules.training.averages import WIDER
from xlagraph.rules.training.longer_backward import LONGER_BACKWARD
from xlagraph.rules.training.optimizer_state import OPTIMIZER_STATE, SKIPPED_BLOCK
from xlagraph.rules.training.repeated_pass import ACCUMULATION_COUNT

if TYPE_CHECKING:
    from collections.abc import Sequence

    from xlagraph.cause.kinds import Kind
    from xlagraph.cause.model import Cause, Context
    from xlagraph.diff import Diff
    from xlagraph.graph import Module
    from xlagraph.message import Side

MAX_APART = 3
"""Lines between an edit and the nearest line of its derivatives."""
NEARLY, ALL = 0.9, 0.95
"""The part of a difference that is nearly all of it, and one that is as good as all."""
MAX_DRAWN = 400
"""Instructions behind a piece that are looked at for what draws it."""
LITTLE = 0.05
"""The part of a difference that is little of it, as conversions at the borders of a type are."""
_LEAST = ("inf", "3.4028", "1.797", "65504", "3.389")
"""How the largest numbers of types are written: where a maximum of values of a type begins."""
SUMS = frozenset(
    (
        *("add", "broadcast", "concatenate", "constant", "convert", "copy", "multiply"),
        *("parameter", "reduce", "reshape", "sqrt", "transpose"),
    )
)
"""What gradients are added up with, and what their norm is made of."""


class Kept(NamedTuple):
    """A tensor that one side alone gives back."""

    side: Side
    value: int
    made_alone: set[int]
    """It, and what it is made of by instructions of its side alone."""


def kept_alone(diff: Diff, cause: Cause) -> list[Kept]:
    """The tensors of which a proved cause says that one side alone keeps them; none of others."""
    if cause.kind is not LIVE_TENSOR or not cause.proved:
        return []
    sides = (
        (A, diff.a, {*diff.removed}, {i for one in cause.evidence for i in one.a}),
        (B, diff.b, {*diff.added}, {i for one in cause.evidence for i in one.b}),
    )
    return [
        Kept(side, i, made_of(module, i, alone))
        for side, module, alone, cited in sides
        for i in cited & {*module.outputs}
    ]


def comes_along(
    diff: Diff, cause: Cause, causes: Sequence[Cause], contexts: tuple[Context, Context]
) -> bool:
    """Whether a cause is a consequence of others, and not one of its own.

    So it is with derivatives of an edit, with what follows from the first cause, and with which
    outputs there are, and in which order.
    """
    first = causes[0]
    if any(_has_derivative(diff, other, cause) for other in causes if other is not cause):
        return True
    if first.proved and _comes_of(diff, first, cause):
        return True
    if any(_is_of_pick(diff, other, cause) for other in causes if other is not cause):
        return True
    if cause.kind is SHARED_SCALAR and any(one.kind is DTYPE and one.proved for one in causes):
        return takes_numbers_alone(diff, cause)
    return _is_order_of_outputs(diff, first, cause, contexts) or _is_kept_along(diff, cause, causes)


def _in_one_function(first: Cause, cause: Cause) -> bool:
    """Whether two causes have lines of one function."""
    one, other = first.place.line, cause.place.line
    return one is not None and other is not None and one.scope == other.scope


def _is_of_pick(diff: Diff, pick: Cause, cause: Cause) -> bool:
    """Whether gradients flow further on one side, through a value that Python picks there."""
    if not is_pick(pick):
        return False
    if cause.kind is LONGER_BACKWARD or has_more_terms(cause):
        return True
    has_loss = all(map(any, forward_pass(diff)))
    return cause.proved and has_loss and _is_behind_the_loss(diff, pick, cause)


def _comes_of(diff: Diff, first: Cause, cause: Cause) -> bool:
    """Whether a proved cause leads to another one.

    So it is with the order of sums that gradients have more terms of, with a decay where the
    learning rate is 0, with gradients of weights that are tied, with counters that are copied
    beside averages of buffers, with numbers that are handed in as another type, with uses of what a
    cache is filled with, with layouts that no line asks for, with the turns of functions that a
    pass calls, with the order of gradients where some are taken twice, with what a type leads to
    at the line where nearly all else comes of it, and with what follows from other tensors.
    """
    short = str(first.in_short)
    if first.kind is ACCUMULATION_COUNT and cause.kind is ACCUMULATION_COUNT:
        return True
    if first.kind is LONGER_BACKWARD and is_order(diff, cause):
        return True
    if _comes_of_what_is_told(diff, short, cause):
        return True
    if short.startswith(TURNS) and cause.kind in (SHARED_SCALAR, SPECIAL_SCALAR):
        return _in_one_function(first, cause)  # their number is divided by, or multiplied with
    if short.startswith(CACHE) and cause.kind is OTHER_OPERAND:
        return _uses(diff, cause, first)
    if cause.kind is LAYOUT and (cause.place.is_near or not cause.place.line):
        return True
    if _comes_of_a_part(diff, first, cause):
        return True
    is_of_type = first.kind is DTYPE and _comes_of_a_type(diff, first, cause)
    return is_of_type or _comes_of_tensors(diff, first, cause)


def _comes_of_what_is_told(diff: Diff, short: str, cause: Cause) -> bool:
    """The same of the first cause's words."""
    told = str(cause.in_short)
    if short.startswith(TURNS):
        return cause.kind in (OUTPUT_ORDER, REORDERED_OPERANDS) or is_order(diff, cause)
    if short.startswith(RATE_OF_ZERO):
        return told.startswith(DECAY_OF_ONE)
    if short.startswith(WIDER):
        return told == str(COPIED.short)
    if short.startswith(PENALTY):
        return cause.kind is OUTPUT_ORDER
    if short.endswith(BEGUN):
        return cause.kind is LIVE_TENSOR
    return short.startswith(OTHER_NORM) and cause.kind in (LIVE_TENSOR, OPTIMIZER_STATE)


def _comes_of_a_part(diff: Diff, first: Cause, cause: Cause) -> bool:
    """The same of what another size leads to, and of a little beside a part that is left out."""
    if first.kind is INPUT_SHAPE and cause.kind in (ATTRIBUTE, PYTHON_INDEX):
        return _is_drawn(diff, cause) or _has_other_axes(diff, cause)
    if str(first.in_short).startswith(SIZED) and cause.kind in BRANCHES:
        return cause.proved and _is_of_gradients(diff, cause)  # heads that share keys, say
    if first.kind is SKIPPED_BLOCK and cause.kind in (ACCUMULATION_COUNT, *BRANCHES):
        return cause.place.is_near and first.share >= NEARLY and cause.share <= LITTLE
    return False


def _comes_of_a_type(diff: Diff, first: Cause, cause: Cause) -> bool:
    """The same of what another type leads to."""
    if OF_ARRAYS in str(first.in_short) and _is_of_weak_type(diff, cause):
        return True
    is_here = cause.place.is_near or cause.place.line == first.place.line
    is_little = first.share >= NEARLY and cause.share <= LITTLE
    is_border = is_here and is_little
    if cause.kind in (DTYPE, SHARED_SCALAR):
        is_taken = takes_numbers_alone(diff, cause) or _takes_type(diff, first, cause)
        return is_taken or is_border or (is_little and _changes_type_alike(diff, first, cause))
    if cause.kind is CONSTANT_VALUE:
        return is_little and _is_least(diff, cause)
    if cause.kind not in BRANCHES:
        return False
    if _only_converts(diff, cause) or (is_border and cause.place.is_near):
        return True
    if cause.place.is_near:
        return first.share >= NEARLY and _is_turned(cause)
    return first.share >= ALL and cause.place.line == first.place.line


def _is_of_weak_type(diff: Diff, cause: Cause) -> bool:
    """Whether it is types, no array's that comes in, or nothing but conversions and their users.

    What a number without a type of its own meets is converted, or not, as far as it goes.
    """
    if cause.kind is DTYPE:
        return not types_of_inputs(diff, cause)
    pairs = [*pairs_of(diff, cause)]
    is_paired = len(cause.a) == len(cause.b) == len(pairs)
    is_alike = all(diff.a.opcodes[x] == diff.b.opcodes[y] for x, y in pairs)
    is_cast = any(diff.a.opcodes[i] == "convert" for i in cause.a)
    return cause.kind in BRANCHES and is_cast and is_paired and is_alike


def _takes_type(diff: Diff, first: Cause, cause: Cause) -> bool:
    """Whether all that has another type has that of an input, on the side where this is wider."""
    types = types_of_inputs(diff, first)
    pairs = ((diff.a.shapes[x], diff.b.shapes[y]) for x, y in pairs_of(diff, cause))
    told = {tuple(shape.partition("[")[0] for shape in pair) for pair in pairs}
    others = [(x, y) for x, y in told if x != y]
    return bool(types) and all(any(x == one or y == two for one, two in types) for x, y in others)


def _changes_type_alike(diff: Diff, first: Cause, cause: Cause) -> bool:
    """Whether what a cause is of, an input aside, has the types that it has in another cause."""
    (old, new), (old_first, new_first) = _types(diff, cause), _types(diff, first)
    is_within = old != new and old <= old_first and new <= new_first
    return cause.kind is DTYPE and is_within and not types_of_inputs(diff, cause)


def _types(diff: Diff, cause: Cause) -> tuple[set[str], set[str]]:
    """The types of what a cause is of, conversions aside, in A and in B."""
    own, other = (
        {element_type(m.shapes[i]) for i in piece if m.opcodes[i] != "convert"}
        for m, piece in ((diff.a, cause.a), (diff.b, cause.b))
    )
    return own, other


def _is_drawn(diff: Diff, cause: Cause) -> bool:
    """Whether random numbers are cut into pieces there, and joined, to as many as are asked for."""
    origin = cause.evidence[0]
    sides = (diff.a, origin.a), (diff.b, origin.b)
    return all(own and all(_takes_drawn(module, i) for i in own) for module, own in sides)


def _takes_drawn(module: Module, i: int) -> bool:
    front = [i]
    for one in front:  # grows while it is read
        if module.opcodes[one] in RANDOM:
            return True
        if len(front) < MAX_DRAWN:
            front += module.operands[one]
    return False


def _has_other_axes(diff: Diff, cause: Cause) -> bool:
    """Whether what has other attributes takes in, or gives, values of more axes on one side."""
    pairs = [*pairs_of(diff, cause)]
    return bool(pairs) and all(_axes(diff.a, x) != _axes(diff.b, y) for x, y in pairs)


def _axes(module: Module, i: int) -> list[int]:
    """How many axes a value has, and what it is computed from."""
    values = (i, *module.operands[i])
    return [len(read_shape(clean(module.shapes[one])).dimensions) for one in values]


def _is_least(diff: Diff, cause: Cause) -> bool:
    """Whether all that a cause is of are the least numbers of a type, or the largest."""
    sides = (diff.a, cause.a), (diff.b, cause.b)
    numbers = [m.payloads.get(i, "") for m, own in sides for i in own]
    return bool(numbers) and all(number.lstrip("-").startswith(_LEAST) for number in numbers)


def _only_converts(diff: Diff, cause: Cause) -> bool:
    """Whether all that one side alone computes for a cause gives values another type."""
    alone = cause.a.intersection(diff.removed), cause.b.intersection(diff.added)
    opcodes = {m.opcodes[i] for m, own in zip((diff.a, diff.b), alone, strict=True) for i in own}
    return opcodes == {"convert"}


def _is_turned(cause: Cause) -> bool:
    """Whether both sides compute the same but for transposes, as gradients are brought back."""
    told = [re.sub(r"transpose|[()]", "", text) for text in cause.short.code]
    return len(told) > 1 and told[0] == told[1]


def _comes_of_tensors(diff: Diff, first: Cause, cause: Cause) -> bool:
    """Whether it follows from other tensors that are taken in, computed, updated or given back.

    Other buffers are given away then; what is updated comes in another order; and what meets
    another value is spread to its shape.
    """
    if first.kind is TIED_WEIGHTS:
        is_added = has_more_terms(cause) or str(cause.in_short).startswith(BACKWARD)
        is_beside = cause.proved and cause.share < first.share and _is_of_gradients(diff, cause)
        return is_added or is_beside or cause.kind in (LIVE_TENSOR, OUTPUT_ORDER)
    if cause.kind is DONORS:
        is_other = first.kind.section in (Section.INPUTS, Section.LIVE, Section.PIECES)
        return is_other and not is_jitted(diff.a)  # there it is an option that somebody sets
    if cause.kind is OUTPUT_ORDER:
        return cause.proved and str(first.in_short).startswith(OTHER_UPDATES)
    if cause.kind not in (ATTRIBUTE, PYTHON_SIZE) or first.kind.section is not Section.PIECES:
        return False
    if str(cause.in_short).lower().startswith(ALONG):
        return False  # no other shape makes that
    if cause.kind is PYTHON_SIZE and joins_more(diff, first):
        return True
    origin = cause.evidence[0]
    sides = ((diff.a, origin.a), (diff.b, origin.b))
    spreads = all(module.opcodes[i] in SPREADS for module, own in sides for i in own)
    return spreads and first.share >= MAIN and cause.proved


def takes_numbers_alone(diff: Diff, cause: Cause) -> bool:
    """Whether all inputs that a cause is about are numbers as torch_xla hands in."""
    sides = ((diff.a, cause.a), (diff.b, cause.b))
    shapes = [m.shapes[i] for m, own in sides for i in own if m.opcodes[i] == "parameter"]
    return bool(shapes) and all(shape.endswith("[]") for shape in shapes)


def _is_of_gradients(diff: Diff, cause: Cause) -> bool:
    """Whether a cause is no more than what gradients are added up with, and their norm taken."""
    sides = (diff.a, cause.a), (diff.b, cause.b)
    every = {module.opcodes[i] for module, own in sides for i in own}
    return bool(every) and every <= SUMS


def _is_order_of_outputs(
    diff: Diff, first: Cause, cause: Cause, contexts: tuple[Context, Context]
) -> bool:
    """Whether it is the order of outputs alone, beside an edit, and not of steps of one run.

    An optimizer updates its groups of parameters one after the other. Of a function that JAX has
    traced, each place is a result of its own.
    """
    if cause.kind is not OUTPUT_ORDER or not (first.proved and cause.proved) or is_jitted(diff.a):
        return False
    return are_versions(diff, contexts) is True or nothing_tells(diff, contexts)


def _is_kept_along(diff: Diff, cause: Cause, causes: Sequence[Cause]) -> bool:
    """Whether tensors that one side gives back more are made of what another cause computes.

    Or the other side gives back as many: in another size, if inputs have one, or else of the same
    shapes, as a gradient that is clipped is another tensor than one that is not.
    """
    given = kept_alone(diff, cause)
    if not given or str(cause.short).endswith(LOGGED):
        return False
    kept = [one for other in causes for one in kept_alone(diff, other)]
    in_a, in_b = (_shapes(diff, kept, side, causes[0].kind) for side in (A, B))
    if causes[0].proved and in_a == in_b:
        return True
    others = [other for other in causes if other.kind is not LIVE_TENSOR and other.proved]
    claimed = {
        A: {i for other in others for i in other.a},
        B: {i for other in others for i in other.b},
    }
    return all(one.made_alone & claimed[one.side] for one in given)


def _shapes(diff: Diff, kept: Sequence[Kept], side: Side, kind: Kind) -> Counter[str]:
    """How often a side keeps a tensor of each shape, but for what a kind of cause changes of it."""
    module = diff.a if side is A else diff.b
    shapes = [bare_shape(module, one.value) for one in kept if one.side is side]
    if kind in (GROWING_INPUT, INPUT_SHAPE):
        return Counter("" for _ in shapes)
    return Counter(shape.partition("[")[2] if kind is DTYPE else shape for shape in shapes)


def _has_derivative(diff: Diff, edit: Cause, cause: Cause) -> bool:
    """Whether a cause is of derivatives that take in what an edit takes in.

    The edit is of the forward pass, whose lines are known. To clamp, torch compares in f64, which
    changes no value.
    """
    is_edit = edit.kind in BRANCHES and edit.proved and edit.place.line and not edit.place.is_near
    is_wide = cause.kind is DTYPE and "f64" in str(cause.in_short)
    is_behind = is_wide or str(cause.in_short).startswith(BACKWARD)
    if not (is_edit and cause.proved and knows_lines(diff.a)):
        return False
    if not (is_behind or _is_of_derivatives(diff, edit, cause)):
        return False
    if _is_near(edit, cause) or _uses(diff, edit, cause):
        return True
    return not _taken(diff, edit).isdisjoint(_taken(diff, cause))


def _is_near(edit: Cause, cause: Cause) -> bool:
    """Whether what has no line of its own, as a derivative, has the nearest one about an edit's."""
    one, other = edit.place.line, cause.place.line
    if one is None or other is None or not cause.place.is_near:
        return False
    return one.scope == other.scope and abs(one.line - other.line) <= MAX_APART


def _uses(diff: Diff, edit: Cause, cause: Cause) -> bool:
    """Whether an edit takes in what one side alone computes for another cause."""
    sides = (diff.a, edit.a, cause.a & {*diff.removed}), (diff.b, edit.b, cause.b & {*diff.added})
    return any(not own.isdisjoint(module.operands[i]) for module, one, own in sides for i in one)


def _is_of_derivatives(diff: Diff, edit: Cause, cause: Cause) -> bool:
    """Whether a piece has nothing of its own that the loss is made of, beside what an edit uses."""
    return edit.share >= cause.share and _is_behind_the_loss(diff, edit, cause)


def _is_behind_the_loss(diff: Diff, edit: Cause, cause: Cause) -> bool:
    """Whether a piece has nothing that the loss is made of, beside what an edit uses."""
    if cause.kind not in BRANCHES:
        return False
    sides = (diff.a, edit.a, cause.a, diff.removed), (diff.b, edit.b, cause.b, diff.added)
    for (module, one, other, lone), way in zip(sides, forward_pass(diff), strict=True):
        used = {o for i in one for o in module.operands[i]}
        made = set[int]().union(*(made_of(module, o) for o in used & other))
        if any(way[i] for i in other.intersection(lone) - used - made):
            return False
    return True


def _taken(diff: Diff, cause: Cause) -> set[int]:
    """The arrays that instructions of one side alone take in for a cause, by A's numbers.

    Those of B alone are negative.
    """
    found = set[int]()
    sides = (diff.a, cause.a, diff.removed, None), (diff.b, cause.b, diff.added, diff.match.to_a)
    for module, claimed, lone, partners in sides:
        own = claimed.intersection(lone)
        below = {o for i in own for o in module.operands[i]} - own
        forms = {through(module, o, SPREADS) for o in below}
        arrays = {i for i in forms if not module.shapes[i].endswith("[]")}
        found |= arrays if partners is None else {_place_in_a(partners, i) for i in arrays}
    return found


def _place_in_a(partners: Sequence[int], i: int) -> int:
    return partners[i] if partners[i] >= 0 else -1 - i
