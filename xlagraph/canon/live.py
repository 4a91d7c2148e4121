"""Which instructions count: what the root, or an effect on the world, depends on."""

from __future__ import annotations

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
    opcodes = module.opcodes
    effects = [
        i
        for i in range(computation.start, computation.stop)
        if opcodes[i] in MAYBE_EFFECTS and i != computation.root and has_effect(module, i)
    ]
    return [computation.root, *effects]


def live_instructions(module: Module) -> bytearray:
    """One byte an instruction: 1 where the entry computation's result or an effect needs it."""
    live = bytearray(len(module))
    seen: set[int] = set()
    pending = [module.entry]
    while pending:
        number = pending.pop()
        if number in seen:
            continue
        seen.add(number)
        computation = module.computations[number]
        mark(module, live, [*roots(module, computation), *computation.parameters])
        for i in range(computation.start, computation.stop):
            if live[i] and i in module.callees:
                pending.extend(module.callees[i])
    return live


def mark(module: Module, live: bytearray, starts: Iterable[int]) -> None:
    """Marks everything that `starts` depend on through operands and control edges.

    One pass against the order of the text; what an edited module has out of order is followed
    by hand.
    """
    stack = [i for i in starts if not live[i]]
    if not stack:
        return
    for i in stack:
        live[i] = 1
    first, last = module.computation_of(min(stack)).start, max(stack)
    _follow(module, live, _sweep(module, live, range(last, first - 1, -1)))


def _sweep(module: Module, live: bytearray, places: range) -> list[int]:
    """Marks the operands of what is marked, backwards; gives those that stand out of order."""
    operands, controls = module.operands, module.controls
    late = []
    for i in places:
        if live[i]:
            for o in operands[i] if i not in controls else (*operands[i], *controls[i]):
                if not live[o]:
                    live[o] = 1
                    if o > i:
                        late.append(o)
    return late


def _follow(module: Module, live: bytearray, stack: list[int]) -> None:
    operands, controls = module.operands, module.controls
    while stack:
        i = stack.pop()
        for o in (*operands[i], *controls.get(i, ())):
            if not live[o]:
                live[o] = 1
                stack.append(o)
