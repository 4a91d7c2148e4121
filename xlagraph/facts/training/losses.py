"""Whether what differs is how the loss is computed."""

from __future__ import annotations

from typing import TYPE_CHECKING

from xlagraph.canon.labels import bare_shape
from xlagraph.facts.training.updates import formula, updates
from xlagraph.facts.values.formulas import is_weight
from xlagraph.facts.values.telling import HEAVY

if TYPE_CHECKING:
    from collections.abc import Collection

    from xlagraph.diff import Diff
    from xlagraph.graph import Module

FLOATS = frozenset({"f16[]", "bf16[]", "f32[]", "f64[]"})


def is_of_loss(diff: Diff, a: Collection[int], b: Collection[int]) -> bool:
    """Whether a cause tells of how a training step comes from the model's values to its loss.

    a, b: the instructions of A and of B that differ by it. The loss is the only number with a
    fraction that both steps give back, beside new values of tensors. What differs further up, as
    an activation, does not differ on the way; and a piece with layers of its own is a model's.
    """
    ways = way_to_loss(diff.a), way_to_loss(diff.b)
    if not all(ways):
        return False
    lone_a, lone_b = set(a).intersection(diff.removed), set(b).intersection(diff.added)
    opcodes = {diff.a.opcodes[i] for i in lone_a} | {diff.b.opcodes[i] for i in lone_b}
    return HEAVY.isdisjoint(opcodes) and not (ways[0].isdisjoint(a) and ways[1].isdisjoint(b))


def way_to_loss(module: Module) -> set[int]:
    """The numbers that the loss is made of, down to where values are summed up; empty if none.

    The loss is the only number with a fraction that a training step gives back, beside numbers
    that are trained, such as a temperature, with their gradients and state.
    """
    new = updates(module)
    trains = any(bare_shape(module, p) not in FLOATS for p in new)
    numbers = {i for i in module.outputs if bare_shape(module, i) in FLOATS}
    if len(numbers) > 1:
        trained = [p for p in new if bare_shape(module, p) in FLOATS and is_weight(module, p)]
        values = {module.outputs[k] for p in trained for k in new[p]}
        for value in (i for i in values if module.opcodes[i] in ("add", "subtract")):
            numbers -= formula(module, value)
    if len(numbers) != 1 or not trains:
        return set()
    return made_of_numbers(module, numbers)


def made_of_numbers(module: Module, numbers: Collection[int]) -> set[int]:
    """These numbers, and those that they are made of, down to where values are summed up."""
    found, stack = set(numbers), [*numbers]
    while stack:
        i = stack.pop()
        below = {o for o in module.operands[i] if bare_shape(module, o).endswith("[]")} - found
        if module.opcodes[i] != "reduce":
            found |= below
            stack += below
    return found
