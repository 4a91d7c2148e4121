"""The index of the device that runs the program, and what it goes into on one side only."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from xlagraph.canon.labels import bare_shape
from xlagraph.facts.program.arguments import is_jitted
from xlagraph.facts.values.telling import RANDOM
from xlagraph.message import say

if TYPE_CHECKING:
    from xlagraph.facts.pieces.bypass import Bypass
    from xlagraph.graph import Module
    from xlagraph.message import Message

INDICES = frozenset({"partition-id", "replica-id"})
KEYS = frozenset({"u32[2]", "u32[4]"})
HASHES = RANDOM | {"xor"}
"""What draws of a key, and what makes another key of it."""
NUMBERS = frozenset({"constant", "iota"})
MAX_OPERATIONS = 20
"""Operations by which a device's index becomes its place along one axis of the mesh."""
KEY_FIX = say(
    "Fold jax.lax.axis_index into the key on both sides, or on neither: with it each device draws "
    "random numbers of its own, without it all draw the same ones."
)
FIX = say("Take the device's index into account on both sides, or on neither.")


class DeviceIndex(NamedTuple):
    """What is said of a piece that only takes in the device's index."""

    short: Message
    fix: Message


def device_index(found: Bypass) -> DeviceIndex | None:
    """In words that the device's index goes into a value of both sides; None if more goes in.

    The piece then takes in that value, the index and constants, and nothing else.
    """
    module, piece, values = found.more.module, found.piece, set(found.uses.values())
    taken = {o for i in piece for o in module.operands[i]} - piece
    others = {o for o in taken - values if module.opcodes[o] not in NUMBERS}
    has_index = others or any(module.opcodes[i] in INDICES for i in piece)
    is_index = all(_is_index(module, o) for o in others)
    if len(values) != 1 or not values <= taken or not (has_index and is_index):
        return None
    is_key = _is_key(module, next(iter(values)), piece)
    index = "the device's index" + (" (jax.lax.axis_index)" if is_jitted(module) else "")
    into = "the key of random numbers" if is_key else "a value"
    what = say(f"{index} goes into {into} in ", found.more.side, " only")
    return DeviceIndex(what, KEY_FIX if is_key else FIX)


def _is_index(module: Module, value: int) -> bool:
    """Whether a value is made of the device's index and constants alone."""
    front = [value]
    for i in front:  # grows while it is read
        front += [o for o in module.operands[i] if o not in front]
        if len(front) > MAX_OPERATIONS:
            return False
    ends = {module.opcodes[i] for i in front if not module.operands[i]}
    return not ends.isdisjoint(INDICES) and ends <= INDICES | NUMBERS


def _is_key(module: Module, value: int, piece: frozenset[int]) -> bool:
    """Whether a value has the form of a key, and the piece makes another key of it."""
    computed = list(piece)
    called = {c for i in computed for c in module.callees.get(i, ())}
    for c in (ahead := list(called)):  # grows while it is read
        body = range(module.computations[c].start, module.computations[c].stop)
        computed += body
        inner = {k for i in body for k in module.callees.get(i, ())} - called
        called |= inner
        ahead += inner
    is_hashed = any(module.opcodes[i] in HASHES for i in computed)
    return bare_shape(module, value) in KEYS and is_hashed
