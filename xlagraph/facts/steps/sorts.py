"""Two graphs that are two kinds of step: of a training several are made on purpose.

An evaluation, or whatever computes the forward pass alone; a micro-batch, which computes gradients
for a later update; two networks that are trained in turn. That is told by which weights a graph
gives new values of, and whether it gives back gradients of theirs. A weight is an input that is
used in other shapes too, not only to make its next value: neither a moving average, nor the state
of an optimizer or of a metric is one.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING

from xlagraph.canon.labels import bare_shape
from xlagraph.canon.live import live_instructions
from xlagraph.cause.editor import is_input
from xlagraph.facts.training.updates import renewed
from xlagraph.facts.values.formulas import is_weight
from xlagraph.facts.values.telling import HEAVY
from xlagraph.hlo.shapes import read_shape
from xlagraph.message import A, B, count, say

if TYPE_CHECKING:
    from collections.abc import Iterable

    from xlagraph.diff import Diff
    from xlagraph.graph import Module
    from xlagraph.message import Message, Side

MIN_WEIGHTS = 3
"""A step that updates fewer weights may be anything."""
FEW, MOST = 0.1, 0.5
"""The part of the weights up to which nothing is given back for them, and from which on it is."""
SHARED = 0.34
"""The part of the weights of two networks that may have shapes in common."""
FORWARD = 0.6
"""The part of a step's products that its forward pass computes at most."""
EVALUATION_FIX = say("None for an evaluation; else update in every step, by torch.where.")
MICRO_BATCH_FIX = say("None if gradients are accumulated: each of the two compiles once.")
MORE_FIX = say(
    "None if that is meant (a policy that is trained every few steps): each graph compiles once."
)
IN_TURN_FIX = say("None if they are trained in turn: each graph compiles once.")


@dataclass(frozen=True, slots=True)
class Sort:
    """Which kinds of step two graphs are, and what to do about that."""

    what: Message
    fix: Message


@dataclass(frozen=True, slots=True)
class _Step:
    """What tells of one graph what it is to a training."""

    side: Side
    trained: list[int]
    """The weights that it gives new values of."""
    weights: Counter[str]
    """The shapes of these."""
    outputs: Counter[str]
    inputs: Counter[str]
    products: int


def sorts_of(diff: Diff) -> Sort | None:
    """Which kinds of step both are, if they are two; None where that is not plain."""
    steps = _step(A, diff.a), _step(B, diff.b)
    one, other = steps
    for more, less in (steps, steps[::-1]):
        updates = more.weights.total() >= MIN_WEIGHTS and not more.weights & less.weights
        updates = updates and not _is_of_other_types(diff, more)
        found = _without_update(more, less) if updates and less.products else None
        if found is not None:
            return found
    return _in_turn(one, other) or _trains_more(diff, steps)


def _is_of_other_types(diff: Diff, step: _Step) -> bool:
    """Whether most weights that a step updates have another type on the other side.

    There their new values may be given back in another type than they came in, as bf16 weights
    that are updated in f32.
    """
    module, other = (diff.a, diff.b) if step.side is A else (diff.b, diff.a)
    partners = diff.match.to_b if step.side is A else diff.match.to_a
    pairs = [(p, partners[p]) for p in step.trained if partners[p] >= 0]
    shapes = ((read_shape(module.shapes[p]), read_shape(other.shapes[q])) for p, q in pairs)
    changed = sum(one.element_type != two.element_type for one, two in shapes)
    return 2 * changed > len(step.trained)


def _trains_more(diff: Diff, steps: tuple[_Step, _Step]) -> Sort | None:
    """A step that does all that the other one does, and trains weights that this has not.

    They are no part of the loss that both have, as an adapter or a layer left out would be.
    """
    for (less, more), changed, lone in (
        (steps, diff.differing_in_a, {*diff.added}),
        (steps[::-1], diff.differing_in_b, {*diff.removed}),
    ):
        weights = [p for p in more.trained if p in lone]
        if changed or not less.weights or len(weights) < MIN_WEIGHTS:
            continue
        new = count(len(weights), "weight")
        what = say(
            more.side, " does all that ", less.side, f" does, and also trains {new} that ",
            less.side, " does not take in, as of another network",
        )  # fmt: skip
        return Sort(what, MORE_FIX)
    return None


def _without_update(more: _Step, less: _Step) -> Sort | None:
    """What a step is that updates none of the weights that the other one does."""
    if _part_of(less.inputs, more.weights) < MOST:
        return None
    number = count(more.weights.total(), "weight")
    gradients = _part_of(less.outputs, more.weights)
    if gradients >= MOST:
        what = say(
            less.side, " is a micro-batch: it gives back gradients and updates none of the ",
            f"{number} that ", more.side, " updates",
        )  # fmt: skip
        return Sort(what, MICRO_BATCH_FIX)
    if gradients > FEW or less.products > FORWARD * more.products:
        return None
    what = say(
        less.side, " computes the forward pass alone, as an evaluation does: it updates none of "
        f"the {number} that ", more.side, " updates",
    )  # fmt: skip
    return Sort(what, EVALUATION_FIX)


def _part_of(shapes: Counter[str], weights: Counter[str]) -> float:
    """How much of these weights there is something of their shape for."""
    return (shapes & weights).total() / weights.total()


def _in_turn(one: _Step, other: _Step) -> Sort | None:
    """Two steps that update weights of which hardly any may be the same."""
    smaller = min(one.weights.total(), other.weights.total())
    if smaller < MIN_WEIGHTS or (one.weights & other.weights).total() > SHARED * smaller:
        return None
    told = [say(step.side, f" {count(step.weights.total(), 'weight')}") for step in (one, other)]
    return Sort(
        say("Two networks are trained, each by its own graph: ", told[0], ", ", told[1]),
        IN_TURN_FIX,
    )


def _step(side: Side, module: Module) -> _Step:
    weights = [p for p in renewed(module) if is_weight(module, p)]
    inputs = module.entry_computation.parameters
    given = [i for i in module.outputs if not is_input(module, i)]
    is_live = live_instructions(module)
    products = sum(1 for i, opcode in enumerate(module.opcodes) if opcode in HEAVY and is_live[i])
    return _Step(
        side,
        weights,
        _shapes(module, weights),
        _shapes(module, given),
        _shapes(module, inputs),
        products,
    )


def _shapes(module: Module, values: Iterable[int]) -> Counter[str]:
    """How often a value of each size is among these in any type, but for single numbers."""
    sizes = (bare_shape(module, i).partition("[")[2] for i in values)
    return Counter(size for size in sizes if size not in ("", "]"))
