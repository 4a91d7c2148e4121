"""What the caching allocator does: memory handed out, freed, and handed out again.

A block belongs to the stream that was current when it was allocated. Freed, it may be handed
out at once to later work of that stream, which is in order after earlier work of the same
stream only. ``record_stream`` defers that: an event is recorded on the named stream at the
free, and the memory is kept back until a query finds it done. Memory goes from one stream's
blocks to another's through ``cudaFree`` only, which waits for the device.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from xlagraph.streams.clocks import join
from xlagraph.streams.shadow import Block, Freed, history
from xlagraph.streams.spans import Spans

if TYPE_CHECKING:
    from collections.abc import Callable

    from xlagraph.streams.clocks import Clock, Clocks, Stream, Thread
    from xlagraph.streams.format import Record
    from xlagraph.streams.shadow import Cell, Shadow

SMALL = 1 << 20
"""Bytes up to which the allocator takes a block from its pool of small ones."""


@dataclass(slots=True)
class Unordered:
    """Accesses that nothing orders before what may be handed the memory next."""

    freed: Freed
    block: Block
    accesses: list[tuple[int, int, Record]]
    """Stream, clock and operator of each."""
    taken: Block | None = None
    """The allocation that could have had the memory."""


class Memory:
    """Follows allocations, and clears from the shadow what a free or a recorded stream orders.

    `found` is told of frees after which an allocation could have had memory still in use.
    """

    def __init__(self, clocks: Clocks, shadow: Shadow, found: Callable[[Unordered], None]):
        self.clocks = clocks
        self.shadow = shadow
        self._found = found
        self.blocks: Spans[Block] = Spans()
        self.unknown_frees = 0
        self.undecided = 0
        self._recorded: dict[int, set[int]] = {}

    def on_alloc(self, record: Record, line: int) -> None:
        """Memory is handed out."""
        stream = self.clocks.stream(record["s"], line)
        start, size = record["p"], record["n"]
        block = Block(start, size, stream.index, line, record)
        self.blocks.add(block)
        if stream.pending:
            self._decide(stream, self.clocks.thread(record["t"]), block)

    def on_record_stream(self, record: Record, line: int) -> None:
        """A stream is named that uses a block."""
        self.record(record["r"][1], self.clocks.stream(record["s"], line))

    def record(self, address: int, stream: Stream) -> None:
        """As ``record_stream`` of the tensor at an address."""
        block = self.blocks.holding(address)
        start = address if block is None else block.start
        self._recorded.setdefault(start, set()).add(stream.index)

    def on_free(self, record: Record, line: int) -> None:
        """Memory goes back to the allocator."""
        start = record["p"]
        block = self.blocks.pop(start)
        recorded = self._recorded.pop(start, None) if self._recorded else None
        if block is None:
            self.unknown_frees += 1
            self._mark_unknown(start, Freed(None, line, record))
            return
        freed = Freed(block, line, record)
        thread = self.clocks.thread(record["t"])
        cell = self.shadow.cells.get(start)
        if (
            cell is not None
            and recorded is None
            and cell.stream == block.stream
            and cell.others is None
            and cell.end == start + block.size
            and not _has_moved(cell, block)
        ):
            cell.freed = freed
            done = thread.clock[cell.stream]
            if done:
                if cell.read <= done:
                    cell.read = 0
                if cell.write <= done:
                    cell.write = 0
            return
        self._free_cells(freed, block, recorded or set(), thread)

    def _mark_unknown(self, start: int, freed: Freed) -> None:
        for cell in self.shadow.overlapping(start, start + 1):
            cell.freed = freed

    def _free_cells(self, freed: Freed, block: Block, recorded: set[int], thread: Thread) -> None:
        """Drops what is done before the memory is used again; keeps track of what may not be."""
        done = self._done(block, recorded, thread)
        owner = self.clocks.by_index[block.stream - 1].clock
        waiting: list[tuple[int, int, Record]] = []
        for cell in self.shadow.within(block.start, block.start + block.size):
            if _has_moved(cell, block):
                drop_before(cell, block.line)
            _drop_done(cell, done)
            if not _used_since(cell, block.line):
                continue
            cell.freed = freed
            waiting += [
                (stream, clock, by)
                for stream, clock, by, _, _ in history(cell)
                if stream != block.stream and clock > owner[stream] and by["line"] > block.line
            ]
        if waiting and "graph" not in block.record:
            one = Unordered(freed, block, waiting)
            self.clocks.by_index[block.stream - 1].pending.append(one)

    def _done(self, block: Block, recorded: set[int], thread: Thread) -> Clock:
        """What is done when the memory is handed out again, whoever gets it."""
        done = thread.clock[:]
        for stream in recorded:
            if stream != block.stream:
                join(done, self.clocks.by_index[stream - 1].clock)
        return done

    def _decide(self, stream: Stream, thread: Thread, taken: Block) -> None:
        """An allocation that could have had memory freed before: is it still in use?"""
        small = taken.size <= SMALL
        left: list[object] = []
        for one in stream.pending:
            assert isinstance(one, Unordered)
            one.accesses = [
                (of, clock, by)
                for of, clock, by in one.accesses
                if clock > stream.clock[of] and clock > thread.clock[of]
            ]
            if not one.accesses:
                continue
            if (one.block.size <= SMALL) != small:
                left.append(one)
                continue
            one.taken = taken
            self._found(one)
        stream.pending = left

    def end(self) -> None:
        """The log ends: what was freed last and not allocated since is not decided."""
        for stream in self.clocks.by_index:
            self.undecided += len(stream.pending)
            stream.pending = []


def _has_moved(cell: Cell, block: Block) -> bool:
    """Whether the memory was another stream's before: the driver had it in between."""
    freed = cell.freed
    return freed is not None and freed.block is not None and freed.block.stream != block.stream


def drop_before(cell: Cell, line: int) -> None:
    """Forgets the accesses that stand before a line."""
    if cell.read and cell.read_by["line"] < line:
        cell.read = 0
    if cell.write and cell.write_by["line"] < line:
        cell.write = 0
    if cell.others is not None:
        cell.others.drop_before(line)
        cell.settle()


def _used_since(cell: Cell, line: int) -> bool:
    """Whether a cell has an access after the allocation at a line."""
    return any(by["line"] > line for _, _, by, _, _ in history(cell))


def _drop_done(cell: Cell, done: Clock) -> None:
    if cell.read <= done[cell.stream]:
        cell.read = 0
    if cell.write <= done[cell.stream]:
        cell.write = 0
    if cell.others is not None:
        cell.others.forget(done, writes=True)
        cell.settle()
