"""Backward passes: what the autograd engine hands from thread to thread and stream to stream.

The engine runs nodes in threads of its own, which know what the caller of ``backward`` knew. A
gradient that goes from a node on one stream to a node on another is waited for, and its memory
is recorded on the second stream (``InputBuffer`` in torch/csrc/autograd), in C++ and out of a
recorder's sight. An initial gradient counts as produced on the stream that ``backward`` was
called on, wherever it was filled in truth.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from xlagraph.streams.clocks import Clock, join
from xlagraph.streams.spans import Name, Spans

if TYPE_CHECKING:
    from xlagraph.streams.clocks import Clocks, Stream, Thread
    from xlagraph.streams.format import Record
    from xlagraph.streams.memory import Memory
    from xlagraph.streams.shadow import Shadow


@dataclass(slots=True, eq=False)
class Backward:
    """One call of ``backward`` that has not returned."""

    number: int
    thread: Thread
    stream: Stream
    record: Record
    """Its ``backward_begin``."""
    line: int
    known: Clock
    """What the calling thread knew."""
    gradients: list[tuple[int, int]]
    """Addresses [start, end) of the initial gradients."""
    passed: dict[int, tuple[int, int]] = field(default_factory=dict)
    """Stream that a gradient at an address was handed to last, and the line."""

    def is_initial(self, start: int, end: int) -> bool:
        """Whether an initial gradient has bytes in [start, end)."""
        return any(low < end and start < high for low, high in self.gradients)


class Backwards:
    """The backward passes under way."""

    def __init__(self, clocks: Clocks, shadow: Shadow, memory: Memory):
        self.clocks = clocks
        self.shadow = shadow
        self.memory = memory
        self.active: list[Backward] = []
        self.latest = 0
        """Number of the backward begun last, while one is active; else 0."""
        self.gradients: Spans[Name] = Spans()
        """What was handed to a parameter's node, by the parameter's name."""
        self._count = 0
        self._took_part: list[Thread] = []

    def begin(self, record: Record, line: int) -> Backward:
        """A ``backward_begin`` mark."""
        thread = self.clocks.thread(record["t"])
        stream = self.clocks.stream(record["s"], line)
        stream.launched_by(thread)
        self._count += 1
        self.latest = self._count
        gradients = [(item[1], item[1] + item[2]) for item in record.get("r", ())]
        one = Backward(
            self._count, thread, stream, record, line, thread.clock[:], gradients
        )  # fmt: skip
        self.active.append(one)
        return one

    def end(self, record: Record) -> None:
        """A ``backward_end`` mark: the caller knows what the engine's threads know."""
        thread = self.clocks.thread(record["t"])
        for one in reversed(self.active):
            if one.thread is thread:
                self.active.remove(one)
                break
        for other in self._took_part:
            if other is not thread:
                self.clocks.hear(thread, other.clock)
        if not self.active:
            self.latest = 0
            self._took_part = []

    def on_node(self, record: Record, line: int) -> None:
        """A node is about to run: its thread and its stream take over its gradients."""
        thread = self.clocks.thread(record["t"])
        if thread.backward != self.latest:
            self._join(thread)
        stream = self.clocks.streams.get(record["s"])
        if stream is None:
            stream = self.clocks.stream(record["s"], line)
        index, cells = stream.index, self.shadow.cells
        parameter = record.get("param")
        for item in record["r"]:
            if parameter:
                self.gradients.add(Name(item[1], item[2], parameter, line))
            cell = cells.get(item[1])
            if cell is None or cell.stream != index or cell.others is not None:
                self._receive(item, stream, line)

    def initial(self, start: int, end: int, line: int) -> Backward | None:
        """The backward pass that has an initial gradient in [start, end) and began after a line."""
        for one in self.active:
            if one.line > line and one.is_initial(start, end):
                return one
        return None

    def _join(self, thread: Thread) -> None:
        for one in self.active:
            if one.thread is not thread:
                self.clocks.hear(thread, one.known)
        if thread not in self._took_part:
            self._took_part.append(thread)
        thread.backward = self.latest

    def _receive(self, item: list[int], stream: Stream, line: int) -> None:
        """Records a gradient's memory on the node's stream, as the engine does.

        It does where the gradient comes from a node on another stream; an initial gradient
        comes from the stream that ``backward`` was called on.
        """
        start, end = item[1], item[1] + item[2]
        producer = self._producers(start, end)
        for one in self.active:
            handed = one.passed.get(start)
            block = self.memory.blocks.at(start)
            if handed is not None and (block is None or handed[1] > block.line):
                producer = {handed[0]}
            elif one.is_initial(start, end):
                producer = {one.stream.index}
            one.passed[start] = stream.index, line
        if producer - {stream.index}:
            self.memory.record(start, stream)

    def _producers(self, start: int, end: int) -> set[int]:
        found = set()
        for cell in self.shadow.overlapping(start, end):
            if cell.write:
                found.add(cell.stream)
            if cell.others is not None:
                found |= {stream for stream, last in cell.others.full.items() if last.write}
        return found


def known_to(stream: Stream, thread: Thread) -> Clock:
    """What is done before the next operator that a thread puts on a stream."""
    clock = stream.clock[:]
    join(clock, thread.clock)
    return clock
