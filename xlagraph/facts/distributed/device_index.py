"""The index of the device that runs the program, and what it goes into on one side only."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from xlagraph.canon.labels import bare_shape
from xlagraph.facts.program.arguments import is_jitted
from xlagraph.facts.values.telling import RANDOM
from xlagraph.message import A, B, say

if TYPE_CHECKING:
    from xlagraph.diff import Diff
    from xlagraph.facts.pieces.bypass import Bypass
    from xlagraph.graph import Module
    from xlagraph.message import Message, Side

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
    """In words that the device's index goes into a value of both sides; None if more goes in."""
    values = [*set(found.uses.values())]
    if len(values) != 1:
        return None
    return _told(found.more.module, found.piece, values[0], found.more.side)


def index_alone(diff: Diff, own_a: frozenset[int], own_b: frozenset[int]) -> DeviceIndex | None:
    """The same of what each side has alone, of which one has numbers at most."""
    for module, own, other, rest, side in (
        (diff.a, own_a, diff.b, own_b, A),
        (diff.b, own_b, diff.a, own_a, B),
    ):
        taken = {o for i in own for o in module.operands[i]} - own
        values = [o for o in taken if module.opcodes[o] not in NUMBERS and not _is_index(module, o)]
        if len(values) == 1 and all(other.opcodes[i] in NUMBERS for i in rest):
            return _told(module, own, values[0], side)
    return None


def _told(module: Module, piece: frozenset[int], value: int, side: Side) -> DeviceIndex | None:
    """The words for a piece that takes in that value, the index, constants and nothing else."""
    taken = {o for i in piece for o in module.operands[i]} - piece
    others = {o for o in taken - {value} if module.opcodes[o] not in NUMBERS}
    has_index = others or any(module.opcodes[i] in INDICES for i in piece)
    is_index = all(_is_index(module, o) for o in others)
    if value not in taken or not (has_index and is_index):
        return None
    is_key = _is_key(module, value, piece)
    index = "the device's index" + (" (jax.lax.axis_index)" if is_jitted(module) else "")
    into = "the key of random numbers" if is_key else "a value"
    what = say(f"{index} goes into {into} in ", side, " only")
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
