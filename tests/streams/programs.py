"""Random programs over streams, events, threads and a caching allocator, as logs of format v1.

A program is built from a list of numbers, so that Hypothesis can draw and shrink it; every list
gives a program that a real process could have run.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

Record = dict[str, Any]
Range = list[int]

STREAMS = (0, 101, 102, 103)
THREADS = (1, 2)
EVENTS = (11, 12, 13)
STATIC = 1000
"""A tensor of 64 bytes that was there before the log began."""
HEAP = 4096
GRAIN = 16


@dataclass(slots=True)
class Chunk:
    """Memory that the allocator has taken from the driver, in one stream's pool."""

    start: int
    size: int
    pool: int


@dataclass(slots=True)
class Builder:
    """Turns numbers into records."""

    records: list[Record] = field(default_factory=list)
    live: list[Chunk] = field(default_factory=list)
    free: list[Chunk] = field(default_factory=list)
    top: int = HEAP
    number: int = 0
    known: set[int] = field(default_factory=set)
    """Events that have been recorded."""

    def add(self, kind: str, **fields: object) -> None:
        self.records.append({"k": kind, **fields})

    def memory(self, a: int, b: int) -> Range:
        """Some bytes: of the static tensor or of a live allocation, at times with gaps."""
        owners = [(STATIC, 64), *((one.start, one.size) for one in self.live)]
        start, size = owners[a % len(owners)]
        offset = (0, 0, 8, 4, 16)[b % 5]
        length = (size, 16, 8, 5, 24)[b // 5 % 5]
        if offset >= size:
            offset = 0
        length = min(length, size - offset)
        if b // 25 % 4 == 0 and length >= 8:
            run, stride = ((2, 4), (1, 3), (3, 8))[b // 100 % 3]
            count = (length - run) // stride + 1
            return [0, start + offset, (count - 1) * stride + run, run, stride, count]
        return [0, start + offset, length]

    def op(self, t: int, s: int, c: int, d: int) -> None:
        self.number += 1
        reads = [self.memory(c, d)] if c % 3 else []
        writes = [self.memory(d, c)] if d % 2 else []
        self.add("op", i=self.number, t=t, s=s, op=f"op{c % 2}", r=reads, w=writes)

    def made(self, t: int, s: int, c: int, d: int) -> None:
        """An operator that allocates its output."""
        self.number += 1
        reads = [self.memory(c, d)] if c % 3 else []
        self.add("op", i=self.number, t=t, s=s, op="made", r=reads, w=[])
        chunk = self.take(t, s, c, d)
        self.add("out", i=self.number, t=t, s=s, w=[[0, chunk.start, chunk.size]])

    def take(self, t: int, s: int, c: int, d: int) -> Chunk:
        """An allocation: memory of the stream's pool, or the driver's."""
        size = GRAIN * (1 + c % 3)
        fitting = [one for one in self.free if one.size >= size and (one.pool == s or d % 5 == 0)]
        if fitting and d % 7:
            chunk = fitting[d % len(fitting)]
            self.free.remove(chunk)
            if chunk.size > size:
                # Only what is one pool's can be split: the driver has segments back whole.
                self.free.append(Chunk(chunk.start + size, chunk.size - size, s))
            chunk = Chunk(chunk.start, size, s)
        else:
            chunk = Chunk(self.top, size, s)
            self.top += size
        self.live.append(chunk)
        self.add("alloc", t=t, p=chunk.start, n=size, s=s)
        return chunk

    def alloc(self, t: int, s: int, c: int, d: int) -> None:
        self.take(t, s, c, d)

    def drop(self, t: int, s: int, c: int, d: int) -> None:  # noqa: ARG002
        if self.live:
            chunk = self.live.pop(c % len(self.live))
            self.free.append(chunk)
            self.add("free", t=t, p=chunk.start)

    def keep(self, t: int, s: int, c: int, d: int) -> None:  # noqa: ARG002
        if self.live:
            chunk = self.live[c % len(self.live)]
            self.add("rs", t=t, r=[0, chunk.start, chunk.size], s=s)

    def record(self, t: int, s: int, c: int, d: int) -> None:  # noqa: ARG002
        self.known.add(EVENTS[c % 3])
        self.add("record", t=t, e=EVENTS[c % 3], s=s)

    def wait(self, t: int, s: int, c: int, d: int) -> None:  # noqa: ARG002
        if EVENTS[c % 3] in self.known:
            self.add("wait", t=t, e=EVENTS[c % 3], s=s)

    def cross(self, t: int, s: int, c: int, d: int) -> None:  # noqa: ARG002
        """What ``wait_stream`` does."""
        self.record(t, s, c, 0)
        self.wait(t, STREAMS[c // 3 % 4], c, 0)

    def sync(self, t: int, s: int, c: int, d: int) -> None:
        if c % 3 == 0:
            self.add("sync_st", t=t, s=s)
        elif c % 3 == 1 and d % 3 == 0:
            self.add("sync_dev", t=t)
        elif EVENTS[d % 3] in self.known:
            self.add("sync_ev", t=t, e=EVENTS[d % 3])

    def talk(self, t: int, s: int, c: int, d: int) -> None:  # noqa: ARG002
        self.add("tell" if c % 2 else "hear", t=t, m=5 + d % 2)


ACTIONS: tuple[Callable[[Builder, int, int, int, int], None], ...] = (
    Builder.op, Builder.op, Builder.op, Builder.made, Builder.made, Builder.alloc, Builder.drop,
    Builder.drop, Builder.keep, Builder.record, Builder.wait, Builder.cross, Builder.cross,
    Builder.sync, Builder.talk,
)  # fmt: skip


def program(numbers: Sequence[tuple[int, int, int, int]]) -> list[Record]:
    """The records of a program, without the first line of a log."""
    builder = Builder()
    for action, where, c, d in numbers:
        thread, stream = THREADS[where % 2], STREAMS[where // 2 % 4]
        ACTIONS[action % len(ACTIONS)](builder, thread, stream, c, d)
    return builder.records
