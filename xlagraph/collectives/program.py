"""The collectives of a module, in the order in which a device comes to them.

Calls, loops and branches are followed. A loop that counts with constants is written out; of any
other loop or branch it stays open how often, and which way, it runs.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from xlagraph.canon.live import has_effect, live_instructions
from xlagraph.collectives.groups import (
    Grid,
    Members,
    Numbering,
    grid_of,
    numbering,
    read_groups,
    read_pairs,
)
from xlagraph.collectives.loops import trip_count
from xlagraph.hlo.effects import is_note
from xlagraph.hlo.shapes import read_shape

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from xlagraph.graph import Computation, Module
    from xlagraph.hlo.shapes import Shape

OPCODES = frozenset(
    {
        *("all-gather", "all-reduce", "all-to-all", "collective-broadcast"),
        *("collective-permute", "ragged-all-to-all", "reduce-scatter"),
    }
)
_STARTS = {f"{opcode}-start": opcode for opcode in OPCODES}
_UNREAD = frozenset({"send", "recv"})
_SAME_EVERYWHERE = frozenset({"constant", "iota"})
_MOVES = frozenset({"parameter", "tuple", "get-tuple-element", "copy", "custom-call", "constant"})
MAX_WRITTEN_OUT = 100_000
"""Collectives of a module with its counted loops written out; behind that loops stay loops."""

MAX_ITEMS = 1_000_000
"""Of one computation; calls of calls can be written out to any number."""


@dataclass(frozen=True, slots=True)
class Collective:
    """One collective as one device runs it; equality is that of what it asks for and where."""

    opcode: str
    """Without ``-start``."""
    buffers: tuple[tuple[str, int], ...]
    """Element type and number of elements of each tensor that goes in."""
    reduction: str
    """The opcode that reduces, ``""`` where nothing is reduced."""
    groups: tuple[Members, ...]
    """Empty for everybody."""
    counted: Numbering
    pairs: tuple[tuple[int, int], ...]
    """Sources and targets of a permutation."""
    channel: str
    instruction: int
    is_async: bool
    removable: bool
    """XLA may merge it with an equal one, or take it away: its operand is the same everywhere."""


@dataclass(frozen=True, slots=True)
class Loop:
    """A loop around collectives that runs nobody knows how often."""

    body: Items
    instruction: int


@dataclass(frozen=True, slots=True)
class Branch:
    """A conditional whose branches run other collectives."""

    branches: tuple[Items, ...]
    instruction: int


@dataclass(frozen=True, slots=True)
class Unread:
    """Something that may wait for other devices, in a way that is not read."""

    opcode: str
    instruction: int


Item = Collective | Loop | Branch | Unread
Items = tuple[Item, ...]


@dataclass(frozen=True, slots=True)
class Program:
    """What one module makes a device do together with others."""

    items: Items
    grid: Grid
    ordered: bool
    """The order of `items` is that of the run: the text is a schedule, or each needs the one
    before. Otherwise XLA orders them when it compiles, by the whole module."""
    partitioned_later: bool
    """XLA's partitioner will put collectives in that this text does not show."""
    lowered_alone: bool = False
    """One process lowered it for many: its groups name more devices than its header."""

    def among(self, world: int) -> Program:
        """The same in a job of so many ranks: what was lowered alone is one of all of them."""
        if not self.lowered_alone:
            return self
        return replace(self, grid=Grid(max(world, self.grid.replicas), 1))


def program_of(module: Module) -> Program:
    """Reads a module's collectives; linear in instructions and in what counted loops write out."""
    reader = _Reader(module, is_final=module.is_scheduled)
    items = tuple(reader.items(module.entry_computation))
    grid = grid_of(module)
    named = _named(items) if grid.devices == 1 else 0
    if named:
        grid = Grid(named + 1, 1)
    is_divided = grid.partitions > 1 or _is_sharded(module)
    return Program(
        items=items,
        grid=grid,
        ordered=module.is_scheduled or not reader.is_free,
        partitioned_later=is_divided and not module.is_scheduled and _is_global(module),
        lowered_alone=named > 0,
    )


def flat(items: Sequence[Item]) -> Iterator[Item]:
    """The items, and those in loops and branches."""
    for item in items:
        yield item
        if isinstance(item, Loop):
            yield from flat(item.body)
        elif isinstance(item, Branch):
            for branch in item.branches:
                yield from flat(branch)


def _named(items: Items) -> int:
    """The largest number in any group."""
    numbers = [0]
    for one in flat(items):
        if isinstance(one, Collective):
            numbers += [number for group in one.groups for number in group]
            numbers += [number for pair in one.pairs for number in pair]
    return max(numbers)


def _is_sharded(module: Module) -> bool:
    """Whether a value of the entry is divided among devices; JAX's header does not say so."""
    entry = module.entry_computation
    shardings = (module.attributes[i].get("sharding") for i in range(entry.start, entry.stop))
    return any("devices=" in sharding for sharding in shardings if sharding)


def _is_global(module: Module) -> bool:
    """Whether the entry computes with whole arrays, which a partitioner has to divide."""
    entry = module.entry_computation
    return any(
        module.opcodes[i] not in _MOVES
        and read_shape(module.shapes[i]).dimensions
        and module.attributes[i].get("sharding") != "{manual}"
        for i in range(entry.start, entry.stop)
    )


class _Reader:
    """Goes through a module from its entry, each computation once."""

    def __init__(self, module: Module, *, is_final: bool):
        self.module = module
        self.is_final = is_final
        """XLA has compiled it, and takes nothing away any more."""
        self.is_free = False
        """Two collectives were met of which neither needs the other."""
        self._live = live_instructions(module)
        self._known: dict[int, Items] = {}

    def items(self, computation: Computation) -> Items:
        """What a computation does."""
        found = self._known.get(computation.index)
        if found is None:
            found = self._known[computation.index] = self._read(computation)
        return found

    def _read(self, computation: Computation) -> Items:
        items: list[Item] = []
        before: dict[int, int] = {}  # the number of the last event that an instruction needs
        varies: set[int] = set()
        seen: set[object] = set()
        events = 0
        for i in range(computation.start, computation.stop):
            needed = (*self.module.operands[i], *self.module.controls.get(i, ()))
            latest = max((before.get(one, 0) for one in needed), default=0)
            if self._may_vary(i, varies):
                varies.add(i)
            if not self._live[i]:
                continue
            found = self._at(i, varies, seen)
            if found:
                self.is_free |= latest < events
                events += 1
                latest = events
                items += found
            before[i] = latest
            if len(items) > MAX_ITEMS:
                return (Unread("too many collectives", i),)
        return tuple(items)

    def _may_vary(self, i: int, varies: set[int]) -> bool:
        opcode, operands = self.module.opcodes[i], self.module.operands[i]
        if opcode.removesuffix("-start") == "all-reduce":
            return False
        if operands:
            return any(one in varies for one in operands)
        return opcode not in _SAME_EVERYWHERE

    def _at(self, i: int, varies: set[int], seen: set[object]) -> Sequence[Item]:
        """What one live instruction does."""
        module = self.module
        opcode = module.opcodes[i]
        if opcode in OPCODES or opcode in _STARTS:
            return (self._collective(i, varies, seen),)
        if opcode in _UNREAD and module.attributes[i].get("is_host_transfer") != "true":
            return (Unread(opcode, i),)
        if opcode == "custom-call" and has_effect(module, i) and not is_note(module.attributes[i]):
            target = module.attributes[i].get("custom_call_target") or opcode
            return (Unread(target.strip('"'), i),)
        callees = [module.computations[c] for c in module.callees.get(i, ())]
        if opcode == "while":
            return self._loop(i)
        if opcode == "conditional":
            branches = tuple(self.items(callee) for callee in callees)
            same = all(_alike(branches[0], other) for other in branches[1:])
            return branches[0] if same else (Branch(branches, i),)
        if opcode in ("call", "async-start"):
            return [item for callee in callees for item in self.items(callee)]
        return ()

    def _loop(self, i: int) -> Sequence[Item]:
        module = self.module
        roles = dict(module.attributes[i].callees)
        ours = {module.computations[c].name: module.computations[c] for c in module.callees[i]}
        parts = [ours.get(name) for key in ("condition", "body") for name in roles.get(key, ())]
        known = [self.items(part) for part in parts if part]
        condition = known[0] if len(known) > 1 else ()
        body = tuple(item for items in known for item in items)
        if not body:
            return ()
        trips = trip_count(module, i)
        if trips is None or trips * len(body) > MAX_WRITTEN_OUT:
            return (Loop(body, i),)
        return (*body * trips, *condition)

    def _collective(self, i: int, varies: set[int], seen: set[object]) -> Item:
        module = self.module
        opcode = module.opcodes[i]
        base = _STARTS.get(opcode, opcode)
        attributes = module.attributes[i]
        groups = read_groups(attributes.get("replica_groups") or "{}")
        if groups is None:
            return Unread(base, i)
        operands = module.operands[i]
        key = (base, operands, attributes.items, attributes.callees)
        again = key in seen and not has_effect(module, i)
        seen.add(key)
        gives_new = not again and any(one in varies for one in operands)
        return Collective(
            opcode=base,
            buffers=tuple(b for one in operands for b in _buffers(read_shape(module.shapes[one]))),
            reduction=self._reduction(i),
            groups=groups,
            counted=numbering(base, attributes),
            pairs=read_pairs(attributes.get("source_target_pairs") or ""),
            channel=attributes.get("channel_id") or "",
            instruction=i,
            is_async=opcode in _STARTS,
            removable=not (self.is_final or gives_new),
        )

    def _reduction(self, i: int) -> str:
        """The opcode that reduces; of a longer computation all its opcodes."""
        callees = self.module.callees.get(i, ())
        if not callees:
            return ""
        computation = self.module.computations[callees[0]]
        opcodes = self.module.opcodes[computation.start : computation.stop]
        return " ".join(one for one in opcodes if one != "parameter")


def _buffers(shape: Shape) -> Iterator[tuple[str, int]]:
    if shape.parts:
        for part in shape.parts:
            yield from _buffers(part)
    else:
        yield shape.element_type, shape.elements


def _alike(one: Items, other: Items) -> bool:
    return [asked(item) for item in one] == [asked(item) for item in other]


def asked(item: Item) -> object:
    """What an item asks of others, whatever instruction asks it."""
    if isinstance(item, Collective):
        return (
            item.opcode, item.buffers, item.reduction, item.groups, item.counted, item.pairs,
        )  # fmt: skip
    if isinstance(item, Loop):
        return ("loop", *(asked(one) for one in item.body))
    if isinstance(item, Branch):
        return ("branch", *(tuple(asked(one) for one in branch) for branch in item.branches))
    return ("unread", item.opcode)
