"""Which instructions count: what the root, or an effect on the world, depends on."""

from __future__ import annotations

from bisect import bisect_left
from itertools import compress
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

    from xlagraph.graph import Computation, Module

EFFECTS = frozenset(
    {
        "infeed",
        "outfeed",
        "send",
        "send-done",
        "recv",
        "recv-done",
        "async-start",
        "async-update",
        "async-done",
        "partition-id-assertion",
    }
)
COLLECTIVES = frozenset(
    {
        "all-gather",
        "all-gather-start",
        "all-reduce",
        "all-reduce-start",
        "all-to-all",
        "collective-broadcast",
        "collective-permute",
        "collective-permute-start",
        "ragged-all-to-all",
        "reduce-scatter",
    }
)
DRAWS = frozenset({"rng", "rng-get-and-update-state"})
"""Opcodes that give another value each time, from the same operands."""
MAYBE_EFFECTS = EFFECTS | COLLECTIVES | {"custom-call"}
"""Opcodes for which `has_effect` can be true."""


def has_effect(module: Module, i: int) -> bool:
    """Whether an instruction must run although nobody uses its result."""
    opcode = module.opcodes[i]
    if opcode in EFFECTS:
        return True
    if opcode in COLLECTIVES:
        return module.attributes[i].get("channel_id") is not None
    if opcode == "custom-call":
        return module.attributes[i].get("custom_call_has_side_effect") == "true"
    return False


def roots(module: Module, computation: Computation) -> list[int]:
    """The root and the instructions with effects, in text order, root first."""
    start, stop, root = computation.start, computation.stop, computation.root
    maybe = compress(
        range(start, stop), map(MAYBE_EFFECTS.__contains__, module.opcodes[start:stop])
    )
    return [root, *(i for i in maybe if i != root and has_effect(module, i))]


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
