"""Which inputs are weights, and which outputs their gradients, as the graph itself tells."""

from __future__ import annotations

from itertools import permutations
from typing import TYPE_CHECKING

from xlagraph.canon.labels import bare_shape
from xlagraph.cause.editor import is_input
from xlagraph.facts.values.scalars import through, without_one

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from xlagraph.graph import Module

PRODUCTS = frozenset({"dot", "convolution"})
FORMS = frozenset({"bitcast", "convert", "copy", "reshape", "transpose"})
"""What turns a value, converts it or gives it another shape."""


def gradient_of(module: Module, value: int) -> int | None:
    """The weight whose gradient a value is: a product of what the weight is multiplied with.

    d(x @ w)/dw is x^T times what comes from above (Griewank and Walther 2008, table 3.3); the
    value has the weight's shape then, and one factor in common with its product.
    """
    value = through_forms(module, value)
    if module.opcodes[value] not in PRODUCTS:
        return None
    factors = {through_forms(module, o) for o in module.operands[value]}
    sizes = _sizes(module, value)
    for factor in sorted(factors):
        if any(is_input(module, other) for other in factors - {factor}):
            continue  # what comes from above is computed
        for product in uses_of(module, factor):
            if module.opcodes[product] not in PRODUCTS or product == value:
                continue
            for o in module.operands[product]:
                weight = through_forms(module, o)
                if is_input(module, weight) and sorted(_sizes(module, weight)) == sorted(sizes):
                    return weight
    return None


def gradients_of(module: Module, values: Iterable[int]) -> dict[int, int | None]:
    """The gradients that these values are, each with its weight; empty if any is something else.

    They may be added to those of earlier steps. That of a bias is the sum of what the gradient of
    a weight is a product of, and has no weight here.
    """
    new = {through_forms(module, _added(module, value)) for value in values}
    found: dict[int, int | None] = {}
    found |= {i: weight for i in sorted(new) if (weight := gradient_of(module, i)) is not None}
    factors = {through_forms(module, o) for i in found for o in module.operands[i]}
    for i in sorted(new.difference(found)):
        if module.opcodes[i] != "reduce":
            return {}
        if through_forms(module, module.operands[i][0]) not in factors:
            return {}
        found[i] = None
    return found


def adds_gradients(module: Module, values: Sequence[int]) -> bool:
    """Whether these values are gradients, each added to the one of earlier steps."""
    are_sums = all(_added(module, value) != value for value in values)
    return are_sums and bool(gradients_of(module, values))


def _added(module: Module, value: int) -> int:
    """What a value adds to an input that nothing else uses, as backward does; else itself."""
    total = through_forms(module, value)
    if module.opcodes[total] != "add":
        return value
    for old, new in permutations(module.operands[total]):
        before = through_forms(module, old)
        if is_input(module, before) and uses_of(module, before) == [total]:
            return without_one(module, through_forms(module, new))  # the factor of a sum
    return value


def is_multiplied(module: Module, tensor: int) -> bool:
    """Whether a tensor is a factor of a product: a weight, and no state of an optimizer."""
    return any(module.opcodes[user] in PRODUCTS for user in uses_of(module, tensor))


def through_forms(module: Module, i: int) -> int:
    """The value that this one is, turned, converted or in another shape."""
    return through(module, i, FORMS)


def products_of(module: Module, value: int) -> list[int]:
    """The products that take in a value, in whatever form."""
    return [user for user in uses_of(module, value) if module.opcodes[user] in PRODUCTS]


def uses_of(module: Module, i: int) -> list[int]:
    """What uses a value, in whatever form."""
    found: list[int] = []
    stack = [i]
    while stack:
        for user in module.users[stack.pop()]:
            (stack if module.opcodes[user] in FORMS else found).append(user)
    return found


def _sizes(module: Module, i: int) -> list[str]:
    return bare_shape(module, i).partition("[")[2].rstrip("]").split(",")
