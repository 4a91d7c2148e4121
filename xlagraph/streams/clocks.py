"""Vector clocks: what every stream and every host thread knows to be done.

Component *k* of a clock belongs to stream number *k*. A stream counts on after each event
recorded on it and each wait of the host for it, so that an access with clock *c* of stream *k*
is done before whatever has a clock with component *k* of at least *c*. Component 0 belongs to
no stream: it is the last line at which something was waited for that the log does not know.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from xlagraph.streams.format import LARGEST

if TYPE_CHECKING:
    from xlagraph.streams.format import Record

UNKNOWN = 0
"""The component for what the log does not know."""

MOST_STREAMS = 4096
MOST_THREADS = 4096

Clock = list[int]


class TooManyError(Exception):
    """More streams or threads than any process has."""


def join(clock: Clock, other: Clock) -> None:
    """Adds to a clock what another one, which may be shorter, knows."""
    for k, value in enumerate(other):
        if value > clock[k]:
            clock[k] = value


class Event(NamedTuple):
    """An event as it was last recorded."""

    clock: Clock
    stream: int


class Thread:
    """A host thread: what it has waited for, and the operator that it is in."""

    __slots__ = (
        "backward", "clock", "epoch", "held", "held_on", "kind", "name", "op", "raw", "reduce",
        "version",
    )  # fmt: skip

    def __init__(self, raw: int, components: int):
        self.raw = raw
        self.clock: Clock = [0] * components
        self.version = 0
        """Counts the changes of `clock`."""
        self.op: Record | None = None
        self.kind = 0
        self.epoch = 0
        """The stream's own component as `op` began."""
        self.held: Record | None = None
        """A collective that has not shown the stream it runs on."""
        self.held_on: Stream | None = None
        self.backward = 0
        """Number of the last backward pass that it took part in."""
        self.reduce: Record | None = None
        """The ``reduce_begin`` mark of the reduction that it is in."""


class Stream:
    """A stream of a device: what is done before its next operator."""

    __slots__ = ("clock", "device", "heard", "index", "line", "pending", "raw", "site", "thread")

    def __init__(self, raw: int, index: int, line: int):
        self.raw = raw
        self.index = index
        self.clock: Clock = [0] * (index + 1)
        self.clock[index] = 1
        self.thread: Thread | None = None
        self.heard = -1
        """The version of `thread` at its last launch here."""
        self.line = line
        """The line that names it first."""
        self.site = ""
        """Where its first operator was called."""
        self.pending: list[object] = []
        """Frees of its memory that it is not known to be done with."""
        self.device = -raw if raw <= 0 else None
        """None where the log does not say it; default streams are numbered by device."""

    def launched_by(self, thread: Thread) -> None:
        """What a thread puts on a stream begins after all that the thread has waited for."""
        if self.thread is thread and self.heard == thread.version:
            return
        if thread.version:
            join(self.clock, thread.clock)
        self.thread, self.heard = thread, thread.version


class Clocks:
    """Streams, threads and events by the numbers that the log has for them."""

    def __init__(self) -> None:
        self.streams: dict[int, Stream] = {}
        self.by_index: list[Stream] = []
        self.threads: dict[int, Thread] = {}
        self.events: dict[int, Event] = {}
        self.channels: dict[int, Clock] = {}
        self.anyone: Clock = [0]
        """What some thread or other has waited for."""
        self.unknown_events = 0

    def stream(self, raw: int, line: int) -> Stream:
        """The stream with this number, new if it was not named before.

        Raises:
            TypeError: it is no number.
            TooManyError: a process does not have as many.
        """
        found = self.streams.get(raw)
        if found is None:
            _check(raw, len(self.streams), MOST_STREAMS, "streams")
            found = self.streams[raw] = Stream(raw, len(self.by_index) + 1, line)
            for other in self.by_index:
                other.clock.append(0)
            for thread in self.threads.values():
                thread.clock.append(0)
            self.anyone.append(0)
            self.by_index.append(found)
        return found

    def thread(self, raw: int) -> Thread:
        """The host thread with this number, new if it was not named before.

        Raises:
            TypeError: it is no number.
            TooManyError: a process does not have as many.
        """
        found = self.threads.get(raw)
        if found is None:
            _check(raw, len(self.threads), MOST_THREADS, "threads")
            found = self.threads[raw] = Thread(raw, len(self.anyone))
        return found

    def on_record(self, record: Record, line: int) -> None:
        """An event takes down what its stream has done so far."""
        stream = self.stream(record["s"], line)
        stream.launched_by(self.thread(record["t"]))
        clock = stream.clock
        self.events[record["e"]] = Event(clock[:], stream.index)
        clock[stream.index] += 1

    def on_wait(self, record: Record, line: int) -> None:
        """A stream goes on when an event is done."""
        stream = self.stream(record["s"], line)
        stream.launched_by(self.thread(record["t"]))
        event = self.events.get(record["e"])
        if event is not None:
            join(stream.clock, event.clock)
        else:
            self.unknown_events += 1
            stream.clock[UNKNOWN] = line

    def on_event_gone(self, record: Record, line: int) -> None:  # noqa: ARG002 - a handler
        """An event is destroyed; its number may be used again."""
        self.events.pop(record["e"], None)

    def on_sync_event(self, record: Record, line: int) -> None:
        """A thread goes on when an event is done, or has asked and was told that it is."""
        thread = self.thread(record["t"])
        event = self.events.get(record["e"])
        if event is None:
            self.unknown_events += 1
            thread.clock[UNKNOWN] = line
        else:
            join(thread.clock, event.clock)
            join(self.anyone, event.clock)
        thread.version += 1

    def on_sync_stream(self, record: Record, line: int) -> None:
        """A thread goes on when a stream is done."""
        self._wait_for(self.thread(record["t"]), self.stream(record["s"], line))

    def on_sync_device(self, record: Record, line: int) -> None:  # noqa: ARG002 - a handler
        """A thread goes on when every stream of the device is done."""
        thread = self.thread(record["t"])
        device = record.get("d")
        for stream in self.by_index:
            if device is None or stream.device is None or stream.device == device:
                self._wait_for(thread, stream)

    def on_stream(self, record: Record, line: int) -> None:
        """A stream is named with its device."""
        self.stream(record["s"], line).device = record["d"]

    def on_tell(self, record: Record, line: int) -> None:  # noqa: ARG002 - a handler
        """A thread hands on what it knows, as by starting another one."""
        channel = self.channels.setdefault(record["m"], [])
        clock = self.thread(record["t"]).clock
        channel.extend([0] * (len(clock) - len(channel)))
        join(channel, clock)

    def on_hear(self, record: Record, line: int) -> None:  # noqa: ARG002 - a handler
        """A thread comes to know what was handed on."""
        self.hear(self.thread(record["t"]), self.channels.get(record["m"], []))

    def hear(self, thread: Thread, clock: Clock) -> None:
        """A thread comes to know what another one knew."""
        if any(clock):
            join(thread.clock, clock)
            thread.version += 1

    def _wait_for(self, thread: Thread, stream: Stream) -> None:
        join(thread.clock, stream.clock)
        join(self.anyone, stream.clock)
        stream.clock[stream.index] += 1
        thread.version += 1


def _check(raw: object, number: int, most: int, what: str) -> None:
    if type(raw) is not int or abs(raw) > LARGEST:
        raise TypeError(f"{raw!r} is no number")
    if number >= most:
        raise TooManyError(f"over {most} {what}")
