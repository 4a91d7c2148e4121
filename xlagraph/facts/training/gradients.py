"""Which inputs are weights, and which outputs their gradients, as the graph itself tells."""

from __future__ import annotations

from typing import TYPE_CHECKING

from xlagraph.canon.labels import bare_shape
from xlagraph.cause.editor import is_input

if TYPE_CHECKING:
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


def is_multiplied(module: Module, tensor: int) -> bool:
    """Whether a tensor is a factor of a product: a weight, and no state of an optimizer."""
    return any(module.opcodes[user] in PRODUCTS for user in uses_of(module, tensor))


def through_forms(module: Module, i: int) -> int:
    """The value that this one is, turned, converted or in another shape."""
    while module.opcodes[i] in FORMS:
        (i,) = module.operands[i]
    return i


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
