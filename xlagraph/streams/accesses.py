"""Accesses to the shadow memory: each is checked against what was there before, and kept."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, Protocol

from xlagraph.streams.clocks import UNKNOWN
from xlagraph.streams.memory import drop_before
from xlagraph.streams.shadow import Others, Strided, history
from xlagraph.streams.strided import Box, Pattern, may_meet, pattern_of, surely_meets

if TYPE_CHECKING:
    from xlagraph.streams.backward import Backward, Backwards
    from xlagraph.streams.clocks import Clocks, Stream
    from xlagraph.streams.format import Record
    from xlagraph.streams.memory import Memory, Unordered
    from xlagraph.streams.shadow import Block, Cell, Freed

MOST_STRIDED = 64
"""Accesses with gaps that a cell keeps apart."""


class Conflict(NamedTuple):
    """Two accesses to the bytes [start, end) that nothing in the log orders.

    An access has the record that it stands in: an ``op``, or the ``out`` of one (`operator_of`).
    """

    earlier: Record
    earlier_stream: Stream
    earlier_writes: bool
    later: Record
    later_stream: Stream
    later_writes: bool
    start: int
    end: int
    doubt: str
    """Why they could be in order, or apart, all the same; ``""`` for no reason."""
    freed: Freed | None
    """The end of the allocation that the earlier access was to, if it has ended."""
    block: Block | None
    """The allocation that holds the bytes now, if it began in the log."""
    reduce: Record | None
    """The ``reduce_begin`` of the reduction that the later access is part of."""
    backward: Backward | None
    """The backward pass whose initial gradient the bytes are part of, written before it."""


class Sink(Protocol):
    """Takes what the analysis meets."""

    def conflict(self, found: Conflict) -> None:
        """Two accesses without order."""

    def unordered_free(self, found: Unordered) -> None:
        """Memory that could have been handed out while it was in use."""

    def unordered_gradient(self, backward: Backward, by: Record, stream: Stream) -> None:
        """An initial gradient that ``backward`` was called without waiting for."""


def operator_of(access: Record) -> Record:
    """The ``op`` whose access stands in a record: that record, or the one its ``out`` ends."""
    operator: Record = access.get("by", access)
    return operator


class Accesses:
    """Performs accesses; conflicts go to the sink."""

    def __init__(
        self, sink: Sink, memory: Memory, backwards: Backwards, *, edges_known: bool = True
    ):
        self.sink = sink
        self.memory = memory
        self.backwards = backwards
        self.edges_known = edges_known
        """Whether the log has the waits between streams."""
        self.clocks: Clocks = memory.clocks
        self.shadow = memory.shadow
        self.approximate = 0
        """Accesses of which only a bounding box is known."""

    def write(self, item: list[int], stream: Stream, now: int, record: Record) -> None:
        """A write with clock `now`; two stores where the stream has the memory to itself."""
        cell = self.shadow.cells.get(item[1])
        if (
            cell is not None
            and cell.stream == stream.index
            and cell.others is None
            and len(item) == 3
            and cell.end == item[1] + item[2]
        ):
            cell.write, cell.write_by = now, record
        else:
            self.access(item, stream, now, record, writes=True)

    def access(
        self, item: list[int], stream: Stream, now: int, record: Record, *, writes: bool
    ) -> None:
        """An access to bytes with any history."""
        start, end = item[1], item[1] + item[2]
        if start >= end:
            if start > end:
                raise ValueError("a range of less than no bytes")
            return
        pattern = pattern_of(item)
        if pattern is not None:
            self._access_some(pattern, (start, end), stream, now, record, writes=writes)
            return
        cells = self.shadow.cover(start, end, stream.index)
        for cell in cells:
            self._touch(cell, stream, now, record, writes=writes)
        if writes and len(cells) > 1 and all(cell.others is None for cell in cells):
            self.shadow.join(cells, start, end)

    def _touch(self, cell: Cell, stream: Stream, now: int, record: Record, *, writes: bool) -> None:
        """An access to all of a cell."""
        if cell.stream != stream.index or cell.others is not None:
            self._check(cell, None, stream, record, writes=writes)
            cell.forget(stream.index, stream.clock, writes=writes)
            cell.front(stream.index)
        if writes:
            cell.write, cell.write_by = now, record
        else:
            cell.read, cell.read_by = now, record

    def _access_some(
        self,
        pattern: Pattern,
        bounds: tuple[int, int],
        stream: Stream,
        now: int,
        record: Record,
        *,
        writes: bool,
    ) -> None:
        """An access to some of the bytes within its bounds."""
        exact = surely_meets(pattern, None, *bounds)
        self.approximate += not exact
        for cell in self.shadow.cover(*bounds, stream.index):
            if not may_meet(pattern, None, cell.start, cell.end):
                continue
            self._check(cell, pattern, stream, record, writes=writes)
            if cell.others is None:
                cell.others = Others()
            cell.others.strided[stream.index, writes, pattern] = Strided(now, record)
            if len(cell.others.strided) > MOST_STRIDED:
                cell.others.merge_strided(stream.index, writes=writes)

    def _check(
        self, cell: Cell, pattern: Pattern | None, stream: Stream, record: Record, *, writes: bool
    ) -> None:
        """Reports what an access to a cell is not in order with."""
        clock, index = stream.clock, stream.index
        latest: dict[tuple[int, Pattern | None], tuple[Record, int, bool, str]] = {}
        for of, then, by, wrote, where in history(cell):
            if of == index or then <= clock[of] or not (writes or wrote):
                continue
            doubt = ""
            if pattern is not None or where is not None:
                if not may_meet(pattern, where, cell.start, cell.end):
                    continue
                if not surely_meets(pattern, where, cell.start, cell.end):
                    sure = _covers(by, where, pattern, writes=wrote) or _covers(
                        record, pattern, where, writes=writes
                    )
                    doubt = "" if sure else "approximate"
            known = latest.get((of, where))
            if known is None or known[0]["line"] < by["line"]:
                latest[of, where] = by, then, wrote, doubt
        for (of, _), (by, then, wrote, doubt) in latest.items():
            earlier = self.clocks.by_index[of - 1]
            self._report(cell, (by, earlier, wrote, then), (record, stream, writes), doubt)

    def _report(
        self,
        cell: Cell,
        first: tuple[Record, Stream, bool, int],
        second: tuple[Record, Stream, bool],
        doubt: str,
    ) -> None:
        by, earlier, wrote, then = first
        record, stream, writes = second
        block = self.memory.blocks.holding(cell.start)
        freed = cell.freed if cell.freed is not None and cell.freed.line > by["line"] else None
        if freed is not None:
            if freed.block is None:
                doubt = doubt or "allocation"
            elif block is not None and block.stream != freed.block.stream:
                drop_before(cell, block.line)  # the driver had it in between, and waits for all
                return
        if not self.edges_known:
            doubt = doubt or "edges"
        if not doubt and stream.clock[UNKNOWN] > by["line"]:
            doubt = "event"
        if not doubt and then <= self.clocks.anyone[earlier.index]:
            doubt = "threads"
        backward = self.backwards.initial(cell.start, cell.end, by["line"]) if wrote else None
        reduce = self.clocks.thread(record["t"]).reduce
        place = (cell.start, cell.end, doubt, freed, block, reduce, backward)
        self.sink.conflict(Conflict(by, earlier, wrote, record, stream, writes, *place))


def _covers(access: Record, own: Pattern | None, other: Pattern | None, *, writes: bool) -> bool:
    """Whether an access without gaps covers all of another one's bounding box.

    Some of the box is accessed, so that the two have bytes in common, whichever these are.
    """
    if own is not None or not isinstance(other, Box):
        return False
    return any(
        len(item) == 3 and item[1] <= other.start and other.end <= item[1] + item[2]
        for item in access["w" if writes else "r"]
    )
