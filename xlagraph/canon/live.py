"""Which instructions count: what the root, or an effect on the world, depends on."""

from __future__ import annotations

from bisect import bisect_left
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

    from xlagraph.graph import Computation, Module

DRAWS = frozenset({"rng", "rng-get-and-update-state"})
"""Opcodes that give another value each time, from the same operands."""


def has_effect(module: Module, i: int) -> bool:
    """Whether an instruction must run although nobody uses its result."""
    effects = module.effects
    at = bisect_left(effects, i)
    return at < len(effects) and effects[at] == i


def acting(module: Module, computation: Computation) -> tuple[int, ...]:
    """The instructions of a computation with effects, in the order in which they act."""
    effects = module.effects
    first, behind = (bisect_left(effects, i) for i in (computation.start, computation.stop))
    found = effects[first:behind]
    order = module.effect_order
    return tuple(sorted(found, key=lambda i: order.get(i, i))) if order else found


def roots(module: Module, computation: Computation) -> list[int]:
    """The root, and what acts on the world in text order, maybe the root once more."""
    return [computation.root, *acting(module, computation)]


def live_instructions(module: Module) -> bytearray:
    """One byte an instruction: 1 where the entry computation's result or an effect needs it."""
    live = bytearray(len(module))
    seen: set[int] = set()
    pending = [module.entry]
    calling = sorted(module.callees)
    while pending:
        number = pending.pop()
        if number in seen:
            continue
        seen.add(number)
        computation = module.computations[number]
        mark(module, live, [*roots(module, computation), *computation.parameters])
        first, behind = (bisect_left(calling, i) for i in (computation.start, computation.stop))
        for i in calling[first:behind]:
            if live[i]:
                pending.extend(module.callees[i])
    return live


def mark(module: Module, live: bytearray, starts: Iterable[int]) -> None:
    """Marks everything that `starts` depend on through operands and control edges."""
    operands, controls = module.operands, module.controls
    stack = list(starts)
    while stack:
        i = stack.pop()
        if not live[i]:
            live[i] = 1
            stack += operands[i]
            if i in controls:
                stack += controls[i]
