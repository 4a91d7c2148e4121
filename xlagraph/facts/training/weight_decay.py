"""Where weight decay enters the update of weights: in the gradient, or in the weight itself.

Adam with `weight_decay` adds ``p * decay`` to the gradient, so that its moments see it; AdamW
scales the weight (Loshchilov and Hutter 2019, *Decoupled Weight Decay Regularization*).
"""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING, NamedTuple

from xlagraph.cause.editor import is_input
from xlagraph.facts.training.updates import elementwise, formula, updates
from xlagraph.facts.values.formulas import is_weight
from xlagraph.facts.values.scalars import is_number

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

    from xlagraph.graph import Module

SUMS = frozenset({"add", "subtract"})


class Enters(Enum):
    """Where the decayed weight goes."""

    GRADIENT = "gradient"
    """Into what state is computed from as well: momentum, moments."""
    WEIGHT = "weight"
    """Into the new value of the weight alone."""


class Decay(NamedTuple):
    """A weight times a number, and the sum that it is a term of."""

    product: int
    sum: int
    enters: Enters


def decays(module: Module) -> dict[int, Decay]:
    """For each weight that decays, where that happens; the averages of weights are no decay."""
    new = updates(module)
    found: dict[int, Decay] = {}
    for weight, places in new.items():
        if not is_weight(module, weight):
            continue
        into = set[int]().union(*(formula(module, module.outputs[k]) for k in places))
        for product, total in _sums(module, weight):
            if total in into and not _averages(module, total, product, new):
                found[weight] = Decay(product, total, _enters(module, total, weight, new))
    return found


def _enters(module: Module, total: int, weight: int, tensors: Collection[int]) -> Enters:
    """Where the sum goes first: together with state of the optimizer, or into the new value."""
    values, stack, seen = set(module.outputs), [total], {total}
    while stack:
        i = stack.pop()
        if i in values:
            continue
        for user in set(module.users[i]) - seen:
            seen.add(user)
            beside = (formula(module, o) for o in module.operands[user] if o not in seen)
            kept = set[int]().union(*beside).intersection(tensors)
            if kept - {weight}:
                return Enters.GRADIENT
            if not kept and elementwise(module, user):
                stack.append(user)
    return Enters.WEIGHT


def _sums(module: Module, weight: int) -> Iterator[tuple[int, int]]:
    """Products of a weight by a number, each with the sum that it is a term of.

    A weight of a narrow type is widened for it, and what comes of it is narrowed again.
    """
    for form in _forms(module, weight):
        for product in module.users[form]:
            others = [o for o in module.operands[product] if o != form]
            is_scaled = module.opcodes[product] == "multiply" and len(others) == 1
            if is_scaled and is_number(module, others[0]):
                users = (u for i in _forms(module, product) for u in module.users[i])
                yield from ((product, u) for u in users if module.opcodes[u] in SUMS)


def _forms(module: Module, value: int) -> list[int]:
    """A value, and what it is converted to."""
    front = [value]
    for i in front:  # grows while it is read
        front += (user for user in module.users[i] if module.opcodes[user] == "convert")
    return front


def _averages(module: Module, total: int, product: int, tensors: Collection[int]) -> bool:
    """Whether a sum mixes in what no optimizer made: an average, its target, running statistics.

    What an optimizer takes from a weight it computes from state, or takes from the weight later.
    """
    values = set(module.outputs)
    forms = _forms(module, product)
    (other,) = [o for o in module.operands[total] if o not in forms] or (product,)
    factors = module.operands[other] if module.opcodes[other] == "multiply" else ()
    scaled = [o for o in factors if not is_number(module, o)]
    if len(scaled) == 1 and (is_input(module, scaled[0]) or scaled[0] in values):
        return True
    return total in values and formula(module, other).isdisjoint(tensors)
