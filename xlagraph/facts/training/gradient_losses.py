"""Losses of gradients: penalties on how fast outputs change with inputs, by a double backward.

The gradient of x in x @ w is what comes from above times w again. Where that is part of a loss,
w's own gradient has a term more: what comes from above times what the loss makes of that gradient.
A tied decoder multiplies a value with w again as well. But what comes from above is linear
(Griewank and Walther 2008, section 3.2), and begins with one number at all places.
"""

from __future__ import annotations

import re
from collections import Counter
from itertools import permutations
from typing import TYPE_CHECKING, NamedTuple

from xlagraph.canon.labels import bare_shape
from xlagraph.cause.editor import is_input
from xlagraph.cause.slices import made_of
from xlagraph.facts.training.gradients import FORMS, PRODUCTS
from xlagraph.facts.values.scalars import SPREADS, is_number, is_scalar_input, through
from xlagraph.facts.values.vanishing import is_zero, vanishing

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable

    from xlagraph.graph import Module

TURNS = FORMS | {"reverse"}
TWICE = re.compile(r"transpose\([^/]*transpose\(")
"""What JAX names the derivative of a derivative: ``transpose(jvp(transpose(jvp(norm))))``."""
MAX_STEPS = 2000
"""Instructions that are looked into from one value."""
MAX_ROUNDS = 8
"""Sums, one behind the other, of values that are linear in a number and what else is times it."""


class GradientLoss(NamedTuple):
    """A gradient that is part of a loss."""

    gradient: int | None
    """None where names alone tell of it."""
    of: int | None
    """The value that it is the gradient of; None where that is not known."""


def gradient_loss(module: Module, piece: Collection[int]) -> GradientLoss | None:
    """The gradient that a piece computes derivatives of; None where none is known to be one."""
    products = sorted(i for i in piece if module.opcodes[i] in PRODUCTS)
    from_above = _of_numbers(module) if products else set[int]()
    for i in reversed(products if from_above else ()):  # that of the inputs comes last
        for above, weight in permutations(_factors(module, i)):
            if (
                above in from_above
                and is_input(module, weight)
                and _has_derivative(module, i, above, weight, products)
            ):
                return GradientLoss(i, _multiplied(module, i, weight))
    return GradientLoss(None, None) if _is_named(module, piece) else None


def _is_named(module: Module, piece: Iterable[int]) -> bool:
    names = (metadata.op_name for i in piece if (metadata := module.metadata(i)))
    return any(name and TWICE.search(name) for name in names)


def _factors(module: Module, product: int) -> tuple[int, ...]:
    return tuple(through(module, o, TURNS) for o in module.operands[product])


def _has_derivative(
    module: Module, gradient: int, above: int, weight: int, products: Iterable[int]
) -> bool:
    """Whether a weight's gradient has a term that is a product with what is made of another one."""
    near = _made_of(module, gradient)
    for product in products:
        for one, other in permutations(_factors(module, product)):
            is_of_it = one == above and other in near
            if is_of_it and _sizes(module, weight) in _forms_of(module, product):
                return True
    return False


def _forms_of(module: Module, product: int) -> list[Counter[str]]:
    """The sizes of a product, and of what is cut of it: a convolution's edge that no window has."""
    stack = [product]
    for i in stack:  # grows while it is read
        stack += [u for u in module.users[i] if module.opcodes[u] in FORMS | {"slice"}]
    return [_sizes(module, i) for i in stack]


def _made_of(module: Module, value: int) -> set[int]:
    """What is computed from a value without another product, as a loss and its derivative are."""
    seen, stack = {value}, [value]
    for i in stack:  # grows while it is read
        fresh = {u for u in module.users[i] if module.opcodes[u] not in PRODUCTS} - seen
        if len(seen) < MAX_STEPS:
            seen |= fresh
            stack += sorted(fresh)
    return seen


def _multiplied(module: Module, gradient: int, weight: int) -> int | None:
    """What the forward pass multiplies with the weight, in the shape of this gradient."""
    below = made_of(module, gradient)
    stack = [weight]
    for i in stack:  # grows while it is read
        for user in module.users[i]:
            if module.opcodes[user] in TURNS:
                stack.append(user)
            elif module.opcodes[user] in PRODUCTS and user in below:
                for x in (through(module, o, FORMS) for o in module.operands[user]):
                    if x != weight and _sizes(module, x) == _sizes(module, gradient):
                        return x
    return None


def _sizes(module: Module, i: int) -> Counter[str]:
    sizes = bare_shape(module, i).partition("[")[2].rstrip("]").split(",")
    return Counter(size for size in sizes if size not in ("", "1"))


def _of_numbers(module: Module) -> set[int]:
    """What is linear in one number that stands at all places, through a weight, as a gradient is.

    The sum of such a value and of something else times that number is one, too.
    """
    entry = module.entry_computation
    span = range(entry.start, entry.stop)
    begun = {i: n for i in span if (n := _begun(module, i)) is not None}
    numbers = set(begun.values())
    found = set(begun)
    for _ in range(MAX_ROUNDS):
        found |= vanishing(module, span, found) if found else found
        sums = (i for i in span if module.opcodes[i] == "add" and i not in found)
        beside = {
            other
            for i in sums
            for one, other in permutations(module.operands[i])
            if one in found and _is_scaled(module, other, numbers)
        }
        if not beside:
            break
        found |= beside
    return found


def _begun(module: Module, product: int) -> int | None:
    """The number that, at all places, a product multiplies a weight with, as backward begins."""
    if module.opcodes[product] not in PRODUCTS:
        return None
    for x, w in permutations(module.operands[product]):
        weight, number = through(module, w, TURNS), _number_at_all(module, x)
        if number is not None and is_input(module, weight) and not is_number(module, weight):
            return number
    return None


def _number_at_all(module: Module, value: int) -> int | None:
    """The one number, no zero, that stands at all places of a value, however it is scaled."""
    for _ in range(MAX_STEPS):
        value = through(module, value, SPREADS)
        if module.opcodes[value] not in ("multiply", "divide"):
            break
        value, factor = module.operands[value]
        if not is_number(module, factor):
            return None
    is_constant = module.opcodes[value] == "constant" and not _sizes(module, value)
    is_given = is_constant or is_scalar_input(module, value)
    return value if is_given and not is_zero(module, value) else None


def _is_scaled(module: Module, value: int, numbers: Collection[int]) -> bool:
    """Whether a value is something times one of these numbers."""
    value = through(module, value, TURNS)
    is_product = module.opcodes[value] == "multiply"
    return is_product and any(_number_at_all(module, o) in numbers for o in module.operands[value])
