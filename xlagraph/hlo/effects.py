"""Which instructions act on the world, so that XLA runs them although nobody uses their result.

The reference is ``HloInstruction::HasSideEffect`` (openxla/xla, ``xla/hlo/ir/hlo_instruction.cc``):
an opcode acts, or a computation that it calls does. Whether channels carry meaning depends on a
compile option that no text shows (``HloModuleConfig::ChannelIdSensitive``); here they always do.
What control edges tie to others is not removed either (``HloComputation::IsSafelyRemovable``).
"""

from __future__ import annotations

from itertools import compress
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Sequence

    from xlagraph.graph import Attributes, Module

ACTING = frozenset(
    {
        "all-gather-done",
        "all-gather-start",
        "all-reduce-done",
        "all-reduce-start",
        "collective-broadcast",
        "collective-permute-done",
        "collective-permute-start",
        "infeed",
        "outfeed",
        "recv",
        "recv-done",
        "rng",
        "rng-get-and-update-state",
        "send",
        "send-done",
    }
)
"""Opcodes that act whatever their attributes are."""
WITH_LAYOUT = frozenset({"all-gather", "all-reduce", "all-to-all", "reduce-scatter"})
"""Opcodes that act where their layout is constrained."""
WITH_CHANNEL = WITH_LAYOUT | {"collective-permute", "ragged-all-to-all"}
"""Opcodes that act where they have a channel; the reference leaves the last one out."""
SHARES_CHANNELS = ACTING | WITH_CHANNEL
"""Opcodes whose channel's number says only which of them share one."""
_NOTES = frozenset({'"Sharding"', '"SPMDFullToShardShape"', '"SPMDShardToFullShape"'})
_MAYBE = ACTING | WITH_CHANNEL | {"custom-call"}
_STEPS = ("-start", "-update", "-done")
"""Endings of asynchronous opcodes: ``custom-call-start`` is ``async-start`` of a custom call."""


def find_effects(module: Module) -> tuple[int, ...]:
    """The instructions that act, by themselves or in what they call, ascending.

    Notes to the partitioner, and what control edges tie to others, are among them where nothing
    else needs them. Linear in instructions, operands and calls.
    """
    opcodes = module.opcodes
    wanted = {opcode for opcode in set(opcodes) if opcode in _MAYBE or opcode.endswith(_STEPS)}
    found: set[int] = set()
    notes: list[int] = []
    for i in compress(range(len(opcodes)), map(wanted.__contains__, opcodes)):
        if acts(opcodes[i], module.attributes[i]) or _goes_on(module, i, found):
            if is_note(module.attributes[i]):
                notes.append(i)
            else:
                found.add(i)
    if module.callees:
        found |= _callers(module, found)
        notes += _callers(module, notes) - found
    if notes or module.controls:
        found.update(_kept(module, found, sorted({*notes, *module.controls}, reverse=True)))
    return tuple(sorted(found))


def is_note(attributes: Attributes) -> bool:
    """Whether a custom call tells the partitioner something: it is kept, and does nothing."""
    target = attributes.get("custom_call_target") or ""
    return target.startswith('"xla.sdy.') or target in _NOTES


def acts(opcode: str, attributes: Attributes) -> bool:
    """Whether an instruction acts by itself."""
    if opcode in ACTING:
        return True
    opcode = opcode.removesuffix("-start")
    if opcode in WITH_CHANNEL:
        return attributes.get("channel_id") is not None or (
            opcode in WITH_LAYOUT and attributes.get("constrain_layout") == "true"
        )
    return opcode == "custom-call" and attributes.get("custom_call_has_side_effect") == "true"


def _goes_on(module: Module, i: int, found: Iterable[int]) -> bool:
    """Whether an instruction is a later step of an asynchronous one that acts."""
    return module.opcodes[i].endswith(_STEPS[1:]) and any(o in found for o in module.operands[i])


def _callers(module: Module, instructions: Collection[int]) -> set[int]:
    """What calls a computation that holds one of these instructions, up to the entry."""
    found: set[int] = set()
    if not instructions:
        return found
    pending = list(instructions)
    reached: set[int] = set()
    while pending:
        here = module.computation_of(pending.pop()).index
        if here not in reached:
            reached.add(here)
            for caller in module.callers.get(here, ()):
                chain = _with_later_steps(module, caller)
                pending += chain
                found.update(chain)
    return found


def _with_later_steps(module: Module, i: int) -> Sequence[int]:
    """An instruction, and the later steps of it where it is asynchronous."""
    steps = [i]
    if module.opcodes[i].endswith(_STEPS):
        for step in steps:
            steps += [u for u in module.users[step] if module.opcodes[u].endswith(_STEPS[1:])]
    return steps


def _kept(module: Module, acting: Collection[int], candidates: Sequence[int]) -> list[int]:
    """Of candidates, which are descending, those that nothing else needs."""
    needed = bytearray(len(module))
    homes = {module.computation_of(i).index for i in candidates}
    _mark(module, needed, [module.computations[c].root for c in homes])
    _mark(module, needed, acting)
    found = []
    for i in candidates:
        if not needed[i]:
            found.append(i)
            _mark(module, needed, [i])
    return found


def _mark(module: Module, needed: bytearray, starts: Iterable[int]) -> None:
    stack = list(starts)
    while stack:
        i = stack.pop()
        if not needed[i]:
            needed[i] = 1
            stack += module.operands[i]
            stack += module.controls.get(i, ())
