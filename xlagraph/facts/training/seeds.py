"""The seed of random numbers, and its steps: each draw takes the next one."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from xlagraph.facts.values.telling import RANDOM

if TYPE_CHECKING:
    from xlagraph.cause.case import SideView

HANDS_ON = frozenset(
    {"convert", "reshape", "broadcast", "bitcast", "bitcast-convert", "concatenate"}
)
"""What lies between a seed and the state of a generator."""
SEEDS = ("s32[]", "u32[]", "s64[]", "u64[]")


class Step(NamedTuple):
    """A seed that is computed from the one before: ``before * 214013 + 2531011``."""

    value: int
    product: int
    before: int
    draws: tuple[int, ...]
    """The generators that start from it."""


def seed_steps(view: SideView) -> list[Step]:
    """The steps of a module's one chain of seeds, the first one first; empty if it has no chain.

    A linear congruential generator, as torch_xla seeds its draws: XLA's own generators then draw
    many numbers from each seed.
    """
    module, live = view.module, view.matched.live
    entry = module.entry_computation
    draws: dict[int, list[int]] = {}
    for i in range(entry.start, entry.stop):
        if live[i] and module.opcodes[i] in RANDOM and module.operands[i]:
            draws.setdefault(_seed(view, i), []).append(i)
    products: dict[int, tuple[int, int]] = {}
    stack = list(draws)
    while stack:
        value = stack.pop()
        found = None if value in products else _before(view, value)
        if found:
            products[value] = found
            stack.append(found[1])
    steps = [
        Step(value, product, before, tuple(draws.get(value, ())))
        for value, (product, before) in sorted(products.items())
    ]
    ends = [step.value for step in steps]
    return steps if [step.before for step in steps[1:]] == ends[:-1] else []


def _seed(view: SideView, draw: int) -> int:
    """The number that a generator's state is made of."""
    module, i = view.module, view.module.operands[draw][0]
    while module.opcodes[i] in HANDS_ON:
        below = _open(view, i)
        if len(below) != 1:
            break
        i = below[0]
    return i


def _before(view: SideView, value: int) -> tuple[int, int] | None:
    """The product and the seed that a seed is computed from, if it is such a step."""
    module = view.module
    if not module.shapes[value].startswith(SEEDS) or module.opcodes[value] != "add":
        return None
    products = _open(view, value)
    if len(products) != 1 or module.opcodes[products[0]] != "multiply":
        return None
    seeds = _open(view, products[0])
    return (products[0], seeds[0]) if len(seeds) == 1 else None


def _open(view: SideView, i: int) -> list[int]:
    """The operands that are not made of constants alone."""
    return [o for o in view.module.operands[i] if not view.matched.closed[o]]
