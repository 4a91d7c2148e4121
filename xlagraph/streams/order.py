"""The analysis of a log: one pass over its records, with a vector clock for each stream.

Conflicts, that is two accesses to the same bytes of which one writes and which nothing orders,
go to a `Sink` as they are met.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from xlagraph.streams.accesses import Accesses
from xlagraph.streams.backward import Backwards, known_to
from xlagraph.streams.clocks import Clocks
from xlagraph.streams.format import CREATIONS, Record, without_unseen
from xlagraph.streams.memory import Memory
from xlagraph.streams.shadow import Shadow, history
from xlagraph.streams.spans import Name, Spans

if TYPE_CHECKING:
    from collections.abc import Iterable

    from xlagraph.streams.accesses import Sink
    from xlagraph.streams.clocks import Stream, Thread
    from xlagraph.streams.log import Numbered

PLAIN, COPY, COLLECTIVE = 1, 2, 3
_COLLECTIVES = ("c10d.", "_c10d_functional.", "c10d_functional.")
_COPIES = ("aten.copy_.", "aten._to_copy.", "aten.clone.", "aten._foreach_copy_.")
_WAITS = ("_c10d_functional.wait_tensor.", "c10d_functional.wait_tensor.")


Handler = Callable[[Record, int], None]


def kind_of(operator: str) -> int:
    """Whether an operator is a collective, a copy, or neither."""
    name = operator + "."  # a profile has no overloads
    if name.startswith(_COLLECTIVES) and not name.startswith(_WAITS):
        return COLLECTIVE
    return COPY if name.startswith(_COPIES) else PLAIN


class Order:
    """Follows a log record by record; `feed` takes all of it."""

    def __init__(self, sink: Sink, *, edges_known: bool = True):
        self.sink = sink
        self.clocks = Clocks()
        self.shadow = Shadow()
        self.memory = Memory(self.clocks, self.shadow, sink.unordered_free)
        self.backwards = Backwards(self.clocks, self.shadow, self.memory)
        self.accesses = Accesses(sink, self.memory, self.backwards, edges_known=edges_known)
        self.unseen = 0
        """Records with tensors that have no memory of their own."""
        self.line = 0
        """The line that was followed last."""
        self.unknown_records = 0
        self.coverage: Record | None = None
        self.records = self.operators = self.steps = 0
        self.names: Spans[Name] = Spans()
        self._kinds: dict[str, int] = {}
        self._holding = 0
        self._step_at = -1
        """Operators before the latest ``step`` mark; the last one may begin no step."""
        clocks, memory = self.clocks, self.memory
        self.handlers: dict[str, Handler] = {
            "op": self.on_op,
            "out": self.on_out,
            "record": clocks.on_record,
            "wait": self.on_wait,
            "ev_del": clocks.on_event_gone,
            "sync_dev": self._after_collective(clocks.on_sync_device),
            "sync_st": self._after_collective(clocks.on_sync_stream),
            "sync_ev": self._after_collective(clocks.on_sync_event),
            "stream": clocks.on_stream,
            "tell": clocks.on_tell,
            "hear": clocks.on_hear,
            "alloc": memory.on_alloc,
            "free": memory.on_free,
            "rs": memory.on_record_stream,
            "node": self.backwards.on_node,
            "mark": self._after_collective(self.on_mark),
        }

    def feed(self, records: Iterable[Numbered]) -> None:
        """Follows records to the end.

        Raises:
            UNREADABLE: a record, this or an earlier one, is not what v1 says.
        """
        handlers, other, line, count = self.handlers, self.on_other, 0, 0
        try:
            for line, record in records:
                count += 1
                try:
                    handlers.get(record["k"], other)(record, line)
                except IndexError:
                    seen = without_unseen(record)
                    if seen is None:
                        raise
                    handlers[record["k"]](seen, line)
                    self.unseen += 1
        finally:
            self.line, self.records = line, count
        self._end()

    def on_op(self, record: Record, line: int) -> None:
        """An operator begins: its inputs are read, what it changes in place is written."""
        thread = self.clocks.threads.get(record["t"]) or self.clocks.thread(record["t"])
        raw = record["s"]
        stream = self.clocks.streams.get(raw) or self.clocks.stream(raw, line)
        if stream.thread is not thread or stream.heard != thread.version:
            stream.launched_by(thread)
        if not stream.site:
            stream.site = record.get("at") or record.get("fwd_at") or ""
        name = record["op"]
        kind = self._kinds.get(name) or self._kinds.setdefault(name, kind_of(name))
        if self._holding and thread.held is not None:
            self.place(thread, self._announced(thread.held, line) or thread.held_on)
        record["line"] = line
        self.operators += 1
        thread.op, thread.kind = record, kind
        index = stream.index
        thread.epoch = now = stream.clock[index]
        if kind == COLLECTIVE:
            thread.held, thread.held_on = record, stream
            self._holding += 1
            return
        cells = self.shadow.cells
        for item in record["r"]:
            cell = cells.get(item[1])
            if (
                cell is not None
                and cell.stream == index
                and cell.others is None
                and len(item) == 3
                and cell.end == item[1] + item[2]
            ):
                cell.read, cell.read_by = now, record
            else:
                self.accesses.access(item, stream, now, record, writes=False)
        for item in record["w"]:
            self.accesses.write(item, stream, now, record)

    def on_out(self, record: Record, line: int) -> None:
        """An operator has returned: its fresh outputs are written."""
        thread = self.clocks.thread(record["t"])
        stream = self.clocks.stream(record["s"], line)
        by = thread.op
        if by is None or by["i"] != record["i"]:
            by = {"op": "?", "line": line, "r": [], "w": []}
            thread.epoch, thread.kind = stream.clock[stream.index], PLAIN
        record["line"], record["by"] = line, by
        now = stream.clock[stream.index]
        if thread.kind == COLLECTIVE:
            if thread.held is not None:
                self.place(thread, self._announced(thread.held, line) or thread.held_on)
            stream, now = thread.held_on or stream, thread.epoch
        elif thread.kind == COPY:
            # A copy from the host may wait for itself before it returns: it is done by then.
            now = thread.epoch
        for item in record["w"]:
            self.accesses.write(item, stream, now, record)

    def on_wait(self, record: Record, line: int) -> None:
        """A stream waits; within a collective it is the one that the collective runs on."""
        self.clocks.on_wait(record, line)
        if self._holding:
            thread = self.clocks.thread(record["t"])
            event = self.clocks.events.get(record["e"])
            if thread.held is not None and thread.held_on is not None and event is not None:
                stream = self.clocks.streams[record["s"]]
                announced = thread.held.get("s_launch", record["s"])
                if event.stream == thread.held_on.index and announced == record["s"]:
                    self.place(thread, stream)

    def on_other(self, record: Record, line: int) -> None:  # noqa: ARG002 - a handler
        """A record that orders nothing: its coverage, creations, or what v1 does not name."""
        if record["k"] == "coverage":
            self.coverage = record
        elif not isinstance(record["k"], str):
            raise TypeError("no kind")
        elif record["k"] not in CREATIONS:
            self.unknown_records += 1

    def on_mark(self, record: Record, line: int) -> None:
        """A mark: where a backward pass or a reduction begins and ends."""
        name = record["name"]
        record = without_unseen(record) or record
        if name == "backward_begin":
            self._begin_backward(record, line)
        elif name == "backward_end":
            self.backwards.end(record)
        elif name == "reduce_begin":
            self.clocks.thread(record["t"]).reduce = record
        elif name == "reduce_end":
            self.clocks.thread(record["t"]).reduce = None
        elif name == "step":
            self.steps += 1
            self._step_at = self.operators
        elif name == "name":
            for item in record.get("r", ()):
                self.names.add(Name(item[1], item[2], record.get("tensor") or "", line))

    def _begin_backward(self, record: Record, line: int) -> None:
        one = self.backwards.begin(record, line)
        known = known_to(one.stream, one.thread)
        for start, end in one.gradients:
            for cell in self.shadow.overlapping(start, end):
                for stream, clock, by, wrote, _ in history(cell):
                    if wrote and clock > known[stream]:
                        self.sink.unordered_gradient(one, by, self.clocks.by_index[stream - 1])

    def _after_collective(self, handler: Handler) -> Handler:
        """A handler of what does not happen within a collective: one that is held is placed."""

        def handle(record: Record, line: int) -> None:
            if self._holding:
                thread = self.clocks.thread(record["t"])
                if thread.held is not None:
                    self.place(thread, self._announced(thread.held, line) or thread.held_on)
            handler(record, line)

        return handle

    def _announced(self, record: Record, line: int) -> Stream | None:
        """The stream that a collective's record says it was launched on."""
        raw = record.get("s_launch")
        return None if raw is None else self.clocks.stream(raw, line)

    def place(self, thread: Thread, stream: Stream | None) -> None:
        """Performs a collective's accesses on the stream that it runs on."""
        record, own = thread.held, thread.held_on
        assert record is not None and stream is not None and own is not None  # noqa: PT018
        thread.held, thread.held_on = None, stream
        self._holding -= 1
        stream.launched_by(thread)
        now = thread.epoch = stream.clock[stream.index]
        for item in record["r"]:
            self.accesses.access(item, stream, now, record, writes=False)
        for item in record["w"]:
            self.accesses.write(item, stream, now, record)
        if stream is not own:
            for item in (*record["r"], *record["w"], *record.get("outs", ())):
                self.memory.record(item[1], stream)

    def _end(self) -> None:
        for thread in self.clocks.threads.values():
            if thread.held is not None:
                self.place(thread, self._announced(thread.held, 0) or thread.held_on)
        self.memory.end()
        self.steps -= self.operators == self._step_at
