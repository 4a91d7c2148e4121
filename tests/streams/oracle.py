"""What orders what, by brute force: a DAG of everything that happens, and reachability in it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import networkx as nx

if TYPE_CHECKING:
    from collections.abc import Sequence

Record = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Touch:
    """One operator's access to one byte."""

    line: int
    """Where it stands: an ``op`` or an ``out``."""
    node: str
    stream: int
    writes: bool


@dataclass(frozen=True, slots=True)
class Free:
    line: int
    pool: int
    size: int
    allocated: int
    bytes: range
    host: str
    recorded: tuple[str, ...]


class Oracle:
    """Builds the DAG of a log; `one_host` merges all threads into one, in the log's order."""

    def __init__(self, records: Sequence[Record], first_line: int = 2, *, one_host: bool = False):
        self.graph: nx.DiGraph[str] = nx.DiGraph()
        self.touches: dict[int, list[Touch]] = {}
        self.frees: list[Free] = []
        self.allocs: list[tuple[int, int, range, str, str]] = []
        """Line, pool, bytes, host node, and what the stream had done last."""
        self._tail: dict[tuple[str, int], str] = {}
        self._one_host = one_host
        self._events: dict[int, str] = {}
        self._told: dict[int, list[str]] = {}
        self._live: dict[int, tuple[int, int, int]] = {}
        self._recorded: dict[int, set[int]] = {}
        self._operators: dict[int, str] = {}
        for line, record in enumerate(records, first_line):
            getattr(self, "_" + record["k"])(line, record)
        closure = nx.transitive_closure_dag(self.graph)
        self._after = {node: set(closure.successors(node)) for node in closure}

    def ordered(self, a: str, b: str) -> bool:
        return a == b or b in self._after[a]

    def _step(self, kind: str, owner: int, name: str, *before: str) -> str:
        self.graph.add_node(name)
        last = self._tail.get((kind, owner))
        for one in (*before, last):
            if one is not None:
                self.graph.add_edge(one, name)
        self._tail[kind, owner] = name
        return name

    def _host(self, thread: int, line: int, *before: str) -> str:
        return self._step("host", 0 if self._one_host else thread, f"host{line}", *before)

    def _launch(self, record: Record, line: int, *before: str) -> str:
        host = self._host(record["t"], line)
        return self._step("stream", record["s"], f"work{line}", host, *before)

    def _op(self, line: int, record: Record) -> None:
        node = self._operators[record["i"]] = self._launch(record, line)
        for writes, field in ((False, "r"), (True, "w")):
            self._touch(line, node, record, field, writes)

    def _out(self, line: int, record: Record) -> None:
        self._touch(line, self._operators[record["i"]], record, "w", True)

    def _touch(self, line: int, node: str, record: Record, field: str, writes: bool) -> None:
        for item in record[field]:
            for byte in bytes_of(item):
                self.touches.setdefault(byte, []).append(Touch(line, node, record["s"], writes))

    def _record(self, line: int, record: Record) -> None:
        self._events[record["e"]] = self._launch(record, line)

    def _wait(self, line: int, record: Record) -> None:
        event = self._events.get(record["e"])
        self._launch(record, line, *([event] if event else []))

    def _sync_st(self, line: int, record: Record) -> None:
        last = self._tail.get(("stream", record["s"]))
        self._host(record["t"], line, *([last] if last else []))

    def _sync_dev(self, line: int, record: Record) -> None:
        self._host(record["t"], line, *(v for (k, _), v in self._tail.items() if k == "stream"))

    def _sync_ev(self, line: int, record: Record) -> None:
        event = self._events.get(record["e"])
        self._host(record["t"], line, *([event] if event else []))

    def _tell(self, line: int, record: Record) -> None:
        self._told.setdefault(record["m"], []).append(self._host(record["t"], line))

    def _hear(self, line: int, record: Record) -> None:
        self._host(record["t"], line, *self._told.get(record["m"], ()))

    def _alloc(self, line: int, record: Record) -> None:
        self._live[record["p"]] = record["n"], record["s"], line
        host = self._host(record["t"], line)
        tail = self._tail.get(("stream", record["s"]), host)
        memory = range(record["p"], record["p"] + record["n"])
        self.allocs.append((line, record["s"], memory, host, tail))

    def _rs(self, line: int, record: Record) -> None:
        self._host(record["t"], line)
        self._recorded.setdefault(record["r"][1], set()).add(record["s"])

    def _free(self, line: int, record: Record) -> None:
        start = record["p"]
        size, pool, allocated = self._live.pop(start)
        streams = self._recorded.pop(start, set()) - {pool}
        host = self._host(record["t"], line)
        marks = tuple(
            self._step("stream", stream, f"kept{line}.{stream}") for stream in sorted(streams)
        )
        memory = range(start, start + size)
        self.frees.append(Free(line, pool, size, allocated, memory, host, marks))

    def races(self) -> dict[tuple[int, int], set[int]]:
        """For each line and byte that it accesses: the earlier lines it is not in order with."""
        found: dict[tuple[int, int], set[int]] = {}
        for byte, touches in self.touches.items():
            for k, later in enumerate(touches):
                for earlier in touches[:k]:
                    if self._race(byte, earlier, later):
                        found.setdefault((later.line, byte), set()).add(earlier.line)
        return found

    def _race(self, byte: int, earlier: Touch, later: Touch) -> bool:
        if not (earlier.writes or later.writes) or self.ordered(earlier.node, later.node):
            return False
        for free in self.frees:
            if earlier.line < free.line < later.line and byte in free.bytes:
                done = (free.host, *free.recorded)
                if any(self.ordered(earlier.node, one) for one in done):
                    return False
                taken = next(a for a in self.allocs if a[0] > free.line and byte in a[2])
                if taken[1] != free.pool:
                    return False
        return True

    def unordered_frees(self) -> set[int]:
        """Lines of frees whose memory the next allocation could have got while it was in use."""
        found = set()
        for free in self.frees:
            users = {
                touch.node
                for byte in free.bytes
                for touch in self.touches.get(byte, ())
                if free.allocated < touch.line < free.line and touch.stream != free.pool
                if not any(self.ordered(touch.node, one) for one in (free.host, *free.recorded))
            }
            following = [a for a in self.allocs if a[0] > free.line and a[1] == free.pool]
            if following:
                _, _, _, host, tail = following[0]
                if any(not (self.ordered(u, host) or self.ordered(u, tail)) for u in users):
                    found.add(free.line)
        return found


def bytes_of(item: list[int]) -> set[int]:
    """The bytes of a range of format v1."""
    if len(item) == 3:
        return set(range(item[1], item[1] + item[2]))
    _, start, extent, run, stride, count = item
    found = {start + k * stride + j for k in range(count) for j in range(run)}
    assert max(found) == start + extent - 1
    return found
