"""A log as a picture: lanes of operators, and what joins and surrounds them.

Operators have columns, counted from 0 in the order in which they were called: a log has no
times. A *place* is a gap between columns: place *k* is before column *k*, after all others.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left, bisect_right
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from xlagraph.streams.order import COLLECTIVE, Order

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from xlagraph.streams.clocks import Clock, Stream, Thread
    from xlagraph.streams.format import Record
    from xlagraph.streams.log import Log
    from xlagraph.streams.model import Finding

MOST_PARTS = 4096
"""Parts of a bucket that are kept apart."""


class Arrow(NamedTuple):
    """A stream waits for what another one had done; stream 0 is one that the log does not say."""

    source: int
    begin: int
    target: int
    end: int
    """Streams by number, and the places of the event and of the wait."""


class HostWait(NamedTuple):
    """A host thread waits for a stream, or for all of them."""

    at: int
    stream: int
    """0 for all."""
    thread: int


class Part(NamedTuple):
    """Bytes of a bucket, and what wrote them last before it was read."""

    offset: int
    size: int
    line: int
    """The line of the operator; 0 where nothing in the log wrote them."""
    column: int
    """The operator's; -1 where there is none."""


class Texts:
    """Texts by number, in order of appearance; number 0 is ``""``."""

    def __init__(self) -> None:
        self.all: dict[str, int] = {"": 0}

    def number(self, text: str | None) -> int:
        """The number of a text, new or known."""
        return self.all.setdefault(text or "", len(self.all))


@dataclass(slots=True)
class Works:
    """Operators in columns: entry *k* of each array is about the one in column *k*."""

    lines: array[int] = field(default_factory=lambda: array("q"))
    streams: array[int] = field(default_factory=lambda: array("i"))
    threads: array[int] = field(default_factory=lambda: array("i"))
    """Numbers from 1, in order of appearance."""
    operators: array[int] = field(default_factory=lambda: array("i"))
    nodes: array[int] = field(default_factory=lambda: array("i"))
    sites: array[int] = field(default_factory=lambda: array("i"))
    forward_sites: array[int] = field(default_factory=lambda: array("i"))
    parameters: array[int] = field(default_factory=lambda: array("i"))
    """Numbers of texts."""
    read: array[int] = field(default_factory=lambda: array("q"))
    written: array[int] = field(default_factory=lambda: array("q"))
    """Bytes."""


@dataclass(frozen=True, slots=True)
class Lanes:
    """All that is drawn of a log."""

    works: Works
    texts: tuple[str, ...]
    arrows: tuple[Arrow, ...]
    host_waits: tuple[HostWait, ...]
    steps: tuple[int, ...]
    """Places where steps begin."""
    backwards: tuple[tuple[int, int], ...]
    """Places where backward passes begin and end."""
    known: Mapping[int, tuple[int, ...]]
    """For the line of a finding's later access, and each stream in turn: the place up to which
    what the stream did is done by then."""
    parts: Mapping[int, tuple[Part, ...]]
    """What filled the bucket of each `bucket-race`, by the finding's number."""

    def place(self, line: int) -> int:
        """The place of a line of the log."""
        return bisect_left(self.works.lines, line)


def lanes_of(log: Log, findings: Sequence[Finding]) -> Lanes:
    """One more pass over a log that was analysed, for the picture of it.

    Raises:
        InputError: a line is not a record of format v1.
    """
    with log.explaining():
        drawing = _Drawing(findings)
        drawing.feed(log.records())
        return drawing.lanes()


class _Nothing:
    """Takes what the analysis has found already."""

    def conflict(self, found: object) -> None:
        """Nothing."""

    def unordered_free(self, found: object) -> None:
        """Nothing."""

    def unordered_gradient(self, backward: object, by: object, stream: object) -> None:
        """Nothing."""


class _Bucket:
    """The bytes of a bucket with what wrote them last, until they are read."""

    def __init__(self, finding: Finding):
        assert finding.bucket is not None
        assert finding.later is not None
        self.number = finding.number
        self.start = finding.bucket.data.start
        self.end = self.start + finding.bucket.data.size
        self.until = finding.later.line
        self.parts: list[tuple[int, int, int]] = []
        """Start, end, column; without overlaps, by address."""

    def write(self, start: int, end: int, column: int) -> None:
        """Takes down a write; what it covers of earlier ones is gone."""
        start, end = max(start, self.start), min(end, self.end)
        if start >= end or len(self.parts) >= MOST_PARTS:
            return
        low = bisect_right(self.parts, start, key=lambda part: part[1])
        high = bisect_left(self.parts, end, key=lambda part: part[0])
        old = self.parts[low:high]
        new = [(start, end, column)] if column >= 0 else []
        if old and old[0][0] < start:
            new.insert(0, (old[0][0], start, old[0][2]))
        if old and old[-1][1] > end:
            new.append((end, old[-1][1], old[-1][2]))
        self.parts[low:high] = new

    def all_parts(self, works: Works) -> tuple[Part, ...]:
        """The whole bucket; gaps are what nothing in the log wrote."""
        found, at = [], self.start
        for start, end, column in (*self.parts, (self.end, self.end, -1)):
            if at < start:
                found.append(Part(at - self.start, start - at, 0, -1))
            if start < end:
                line = works.lines[column]
                found.append(Part(start - self.start, end - start, line, column))
            at = end
        return tuple(found)


class _Drawing(Order):
    """Follows a log as the analysis does, and takes down where things stand."""

    def __init__(self, findings: Sequence[Finding]):
        super().__init__(_Nothing())
        self.works = Works()
        self.texts, self.host_threads = Texts(), Texts()
        self.arrows: list[Arrow] = []
        self.host_waits: list[HostWait] = []
        self.steps_at: list[int] = []
        self.backwards_at: list[tuple[int, int]] = []
        self.open_backwards: dict[int, int] = {}
        self.events_at: dict[int, int] = {}
        """For each event, the place where it was recorded."""
        self.epochs: dict[int, tuple[list[int], list[int]]] = {}
        """For each stream its own clock's values, and the column of the first operator of each."""
        self.watched = {one.later.line for one in findings if one.later is not None}
        self.known: dict[int, tuple[int, ...]] = {}
        self.buckets = [_Bucket(one) for one in findings if one.bucket and one.later]
        self.open_buckets = sorted(self.buckets, key=lambda bucket: -bucket.until)
        self.handlers |= {
            "record": self._with(self.handlers["record"], self._record),
            "alloc": self._with(self.handlers["alloc"], self._alloc),
            "sync_dev": self._with(self.handlers["sync_dev"], self._host_wait),
            "sync_st": self._with(self.handlers["sync_st"], self._host_wait),
            "sync_ev": self._with(self.handlers["sync_ev"], self._host_wait),
            "mark": self._with(self.handlers["mark"], self._mark),
        }

    @property
    def now(self) -> int:
        """The place after all operators so far."""
        return len(self.works.lines)

    def on_op(self, record: Record, line: int) -> None:
        """An operator has the next column."""
        while self.open_buckets and self.open_buckets[-1].until <= line:
            self.open_buckets.pop()
        super().on_op(record, line)
        thread, works, number = self.clocks.threads[record["t"]], self.works, self.texts.number
        column, stream = self.now, self.clocks.streams[record["s"]]
        works.lines.append(line)
        works.streams.append(stream.index)
        works.threads.append(self.host_threads.number(str(record["t"])))
        works.operators.append(number(record["op"]))
        works.nodes.append(number(record.get("node")))
        works.sites.append(number(record.get("at")))
        works.forward_sites.append(number(record.get("fwd_at")))
        works.parameters.append(number(record.get("param")))
        works.read.append(sum(item[2] for item in record["r"]))
        works.written.append(0)
        record["column"] = column
        self._written(record, column)
        if thread.kind != COLLECTIVE:
            self._began(stream, thread, record)

    def on_out(self, record: Record, line: int) -> None:
        """What an operator returned counts as written by it."""
        super().on_out(record, line)
        column = record["by"].get("column", -1)
        if column >= 0:
            self._written(record, column)

    def on_wait(self, record: Record, line: int) -> None:
        """A wait is an arrow."""
        event = self.clocks.events.get(record["e"])
        super().on_wait(record, line)
        target = self.clocks.streams[record["s"]].index
        if event is None:
            self.arrows.append(Arrow(0, self.now, target, self.now))
        elif event.stream != target:
            self.arrows.append(Arrow(event.stream, self.events_at[record["e"]], target, self.now))

    def place(self, thread: Thread, stream: Stream | None) -> None:
        """A collective moves to the lane that it runs on."""
        record = thread.held
        super().place(thread, stream)
        if record is not None and stream is not None:
            self.works.streams[record["column"]] = stream.index
            self._began(stream, thread, record)

    def lanes(self) -> Lanes:
        """The picture of what was followed."""
        last = self.now
        left = [(begin, last) for begin in self.open_backwards.values()]
        return Lanes(
            self.works,
            tuple(self.texts.all),
            tuple(self.arrows),
            tuple(self.host_waits),
            tuple(self.steps_at),
            tuple(sorted((*self.backwards_at, *left))),
            self.known,
            {bucket.number: bucket.all_parts(self.works) for bucket in self.buckets},
        )

    def _began(self, stream: Stream, thread: Thread, record: Record) -> None:
        """Keeps which operators each value of a stream's clock stands for."""
        epochs, columns = self.epochs.setdefault(stream.index, ([], []))
        if not epochs or epochs[-1] < thread.epoch:
            epochs.append(thread.epoch)
            columns.append(record["column"])
        if record["line"] in self.watched:
            self.known[record["line"]] = self._done_by(stream.clock, record["column"])

    def _done_by(self, clock: Clock, column: int) -> tuple[int, ...]:
        """For each stream the place up to which a clock covers it."""
        found = []
        for index, value in enumerate(clock[1:], 1):
            epochs, columns = self.epochs.get(index, ([], []))
            first = bisect_right(epochs, value)
            found.append(columns[first] if first < len(columns) else column)
        return tuple(found)

    def _written(self, record: Record, column: int) -> None:
        for item in record["w"]:
            self.works.written[column] += item[2]
            for bucket in self.open_buckets:
                bucket.write(item[1], item[1] + item[2], column)

    def _record(self, record: Record) -> None:
        self.events_at[record["e"]] = self.now

    def _alloc(self, record: Record) -> None:
        for bucket in self.open_buckets:
            bucket.write(record["p"], record["p"] + record["n"], -1)

    def _host_wait(self, record: Record) -> None:
        event = self.clocks.events.get(record.get("e", 0))
        stream = self.clocks.streams.get(record.get("s", ""))
        index = event.stream if event else stream.index if stream else 0
        if record["k"] == "sync_dev" or index:
            thread = self.host_threads.number(str(record["t"]))
            self.host_waits.append(HostWait(self.now, index, thread))

    def _mark(self, record: Record) -> None:
        if record["name"] == "step":
            self.steps_at.append(self.now)
        elif record["name"] == "backward_begin":
            self.open_backwards[record["t"]] = self.now
        elif record["name"] == "backward_end":
            begin = self.open_backwards.pop(record["t"], None)
            if begin is not None:
                self.backwards_at.append((begin, self.now))

    @staticmethod
    def _with(
        handler: Callable[[Record, int], None], then: Callable[[Record], None]
    ) -> Callable[[Record, int], None]:
        def handle(record: Record, line: int) -> None:
            handler(record, line)
            then(record)

        return handle
