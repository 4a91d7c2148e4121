"""Derivatives of a distance: that of f(x - y) by y is that of x with the two exchanged."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, NamedTuple

from xlagraph.facts.training.gradients import through_forms
from xlagraph.facts.values.scalars import SPREADS, through

if TYPE_CHECKING:
    from collections.abc import Iterator

    from xlagraph.graph import Module

MAX_FACTORS = 16
MAX_STEPS = 4
"""Products between a difference and the derivative."""


class Mirrored(NamedTuple):
    """A derivative by the other value of a difference, and the value that the term is by."""

    other: int
    value: int


def mirrored(module: Module, term: int) -> Iterator[Mirrored]:
    """What a term is with the values of a difference in it exchanged, where it is computed too."""
    factors = _factors(module, term)
    for difference in [i for i in factors if isinstance(i, int) and _is_difference(module, i)]:
        x, y = module.operands[difference]
        turned = [u for u in module.users[y] if tuple(module.operands[u]) == (y, x)]
        for other in (u for u in turned if _is_difference(module, u)):
            wanted = factors - Counter([difference]) + Counter([other])
            for product in _products(module, other):
                if _factors(module, product) == wanted:
                    yield Mirrored(product, through_forms(module, x))


def _is_difference(module: Module, i: int) -> bool:
    return module.opcodes[i] == "subtract"


def _factors(module: Module, product: int) -> Counter[int | str]:
    """What is multiplied, numbers by their value; empty if it is too much."""
    found: Counter[int | str] = Counter()
    stack = [product]
    while stack and len(stack) + sum(found.values()) < MAX_FACTORS:
        i = through(module, stack.pop(), SPREADS)
        if module.opcodes[i] == "multiply":
            stack += module.operands[i]
        elif module.opcodes[i] == "constant":
            found[module.payloads[i]] += 1
        else:
            found[i] += 1
    return Counter() if stack else found


def _products(module: Module, i: int) -> list[int]:
    """The products that take in a value, or a product of it, and so on."""
    found, front = list[int](), [i]
    for _ in range(MAX_STEPS):
        front = [u for o in front for u in module.users[o] if module.opcodes[u] == "multiply"]
        found += front
    return found
