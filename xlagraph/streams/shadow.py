"""Shadow memory: for every byte of the device, who accessed it last on each stream.

A `Cell` is a run of bytes with one history. Cells are split where an access begins or ends
within one, and joined again where a write covers several. They outlive the allocations they
lie in: what is handed out again while a kernel still reads it is found by its old history.

The cells are those of FastTrack (Flanagan and Freund, PLDI 2009), with two differences: an
access has an interval of bytes instead of a variable, and all streams whose last write is not
ordered before a later one are kept, so that each of them can be named.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from sortedcontainers import SortedDict

from xlagraph.streams.format import LARGEST
from xlagraph.streams.strided import Box, bounds_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from xlagraph.streams.clocks import Clock
    from xlagraph.streams.format import Record
    from xlagraph.streams.strided import Pattern

_EVERY = LARGEST
"""Later than any clock."""


class Block(NamedTuple):
    """An allocation."""

    start: int
    size: int
    stream: int
    """Number of the stream that the allocator keeps it for."""
    line: int
    record: Record
    """Its ``alloc``."""


class Freed(NamedTuple):
    """The end of an allocation."""

    block: Block | None
    """None where it began before the log did."""
    line: int
    record: Record
    """Its ``free``."""


class Last:
    """The last read and the last write on one stream; clock 0 is none."""

    __slots__ = ("read", "read_by", "write", "write_by")

    def __init__(self) -> None:
        self.read = 0
        self.read_by: Record = _NONE
        self.write = 0
        self.write_by: Record = _NONE


class Strided(NamedTuple):
    """An access to some bytes of a cell."""

    clock: int
    record: Record


StridedKey = tuple[int, bool, "Pattern"]
"""Stream, whether it writes, and which bytes."""


class Others:
    """What a cell knows beyond the full accesses of one stream."""

    __slots__ = ("full", "strided")

    def __init__(self) -> None:
        self.full: dict[int, Last] = {}
        self.strided: dict[StridedKey, Strided] = {}

    def merge_strided(self, stream: int, *, writes: bool) -> None:
        """Keeps one irregular access in place of all of a stream's of one kind."""
        mine = [key for key in self.strided if key[:2] == (stream, writes)]
        gone = [self.strided.pop(key) for key in mine]
        bounds = [bounds_of(pattern) for _, _, pattern in mine]
        box = Box(min(low for low, _ in bounds), max(high for _, high in bounds))
        self.strided[stream, writes, box] = max(gone, key=lambda one: one.record["line"])

    def forget(self, done: Clock, *, writes: bool) -> None:
        """Drops reads that are done, and writes too where `writes` is set."""
        for stream in list(self.full):
            last = self.full[stream]
            if last.read <= done[stream]:
                last.read = 0
            if writes and last.write <= done[stream]:
                last.write = 0
            if not (last.read or last.write):
                del self.full[stream]
        for key, one in list(self.strided.items()):
            if (writes or not key[1]) and one.clock <= done[key[0]]:
                del self.strided[key]

    def drop_before(self, line: int) -> None:
        """Drops accesses that stand before a line."""
        for stream in list(self.full):
            last = self.full[stream]
            if last.read and last.read_by["line"] < line:
                last.read = 0
            if last.write and last.write_by["line"] < line:
                last.write = 0
            if not (last.read or last.write):
                del self.full[stream]
        for key, one in list(self.strided.items()):
            if one.record["line"] < line:
                del self.strided[key]

    def copy(self) -> Others:
        """The same, to be changed apart."""
        made = Others()
        for stream, last in self.full.items():
            made.full[stream] = one = Last()
            one.read, one.read_by = last.read, last.read_by
            one.write, one.write_by = last.write, last.write_by
        made.strided = dict(self.strided)
        return made


_NONE: Record = {}


class Cell:
    """The bytes [start, end) and their accesses: those of one stream here, the rest in `others`.

    Nearly all memory is used by one stream only, so that an access stores two values.
    """

    __slots__ = (
        "end", "freed", "others", "read", "read_by", "start", "stream", "write", "write_by",
    )  # fmt: skip

    def __init__(self, start: int, end: int, stream: int):
        self.start = start
        self.end = end
        self.stream = stream
        self.read = 0
        self.read_by: Record = _NONE
        self.write = 0
        self.write_by: Record = _NONE
        self.others: Others | None = None
        self.freed: Freed | None = None

    def cut(self, at: int) -> Cell:
        """Ends the cell at an address and returns the rest of it."""
        rest = Cell(at, self.end, self.stream)
        rest.read, rest.read_by = self.read, self.read_by
        rest.write, rest.write_by = self.write, self.write_by
        rest.others = self.others and self.others.copy()
        rest.freed = self.freed
        self.end = at
        return rest

    def front(self, stream: int) -> None:
        """Makes `stream` the one whose accesses are stored in the cell itself."""
        if self.stream == stream:
            return
        others = self.others
        if self.read or self.write:
            if others is None:
                others = self.others = Others()
            others.full[self.stream] = last = Last()
            last.read, last.read_by = self.read, self.read_by
            last.write, last.write_by = self.write, self.write_by
        mine = others.full.pop(stream, None) if others is not None else None
        if mine is None:
            self.read, self.write = 0, 0
        else:
            self.read, self.read_by = mine.read, mine.read_by
            self.write, self.write_by = mine.write, mine.write_by
        self.stream = stream

    def forget(self, stream: int, clock: Clock, *, writes: bool) -> None:
        """Drops what an access to the whole cell makes needless to remember.

        Whatever is in order after this access is in order after what this access is in order
        after. A read says nothing for earlier writes: a later read conflicts with those only.
        """
        if self.others is None:
            if self.read <= clock[self.stream]:
                self.read = 0
            if writes and self.write <= clock[self.stream]:
                self.write = 0
            return
        done = clock[:]
        done[stream] = _EVERY
        self.others.forget(done, writes=writes)
        if self.read <= done[self.stream]:
            self.read = 0
        if writes and self.write <= done[self.stream]:
            self.write = 0
        self.settle()

    def settle(self) -> None:
        """Lets go of `others` where nothing is left there."""
        if self.others is not None and not (self.others.full or self.others.strided):
            self.others = None


def history(cell: Cell) -> Iterator[tuple[int, int, Record, bool, Pattern | None]]:
    """All that a cell knows: stream, clock, operator, whether it wrote, which bytes."""
    if cell.write:
        yield cell.stream, cell.write, cell.write_by, True, None
    if cell.read:
        yield cell.stream, cell.read, cell.read_by, False, None
    if cell.others is None:
        return
    for stream, last in cell.others.full.items():
        if last.write:
            yield stream, last.write, last.write_by, True, None
        if last.read:
            yield stream, last.read, last.read_by, False, None
    for (stream, wrote, pattern), one in cell.others.strided.items():
        yield stream, one.clock, one.record, wrote, pattern


class Shadow:
    """The cells by address; `cells` may be looked into by the address a cell begins at."""

    def __init__(self) -> None:
        self.cells: SortedDict[int, Cell] = SortedDict()

    def overlapping(self, start: int, end: int) -> list[Cell]:
        """The cells that have a byte in [start, end), by address."""
        cells = self.cells
        first = cells.bisect_right(start) - 1
        found = [cells.peekitem(first)[1]] if first >= 0 else []
        if found and found[0].end <= start:
            found = []
        for key in cells.irange(start, end, inclusive=(False, False)):
            found.append(cells[key])
        return found

    def within(self, start: int, end: int) -> list[Cell]:
        """The cells in [start, end); those that reach beyond are cut."""
        cells = self.cells
        found = self.overlapping(start, end)
        if found and found[0].start < start:
            found[0] = cells[start] = found[0].cut(start)
        if found and found[-1].end > end:
            cells[end] = found[-1].cut(end)
        return found

    def cover(self, start: int, end: int, stream: int) -> list[Cell]:
        """Cells that together are [start, end): others are cut at its ends, gaps are filled."""
        at, whole = start, []
        for cell in self.within(start, end):
            if at < cell.start:
                whole.append(self._new(at, cell.start, stream))
            whole.append(cell)
            at = cell.end
        if at < end:
            whole.append(self._new(at, end, stream))
        return whole

    def join(self, cells: list[Cell], start: int, end: int) -> None:
        """Makes one of cells that are [start, end), which a write has made alike."""
        first = cells[0]
        for cell in cells[1:]:
            del self.cells[cell.start]
            if cell.freed and (first.freed is None or first.freed.line < cell.freed.line):
                first.freed = cell.freed
        first.start, first.end = start, end

    def _new(self, start: int, end: int, stream: int) -> Cell:
        cell = self.cells[start] = Cell(start, end, stream)
        return cell
