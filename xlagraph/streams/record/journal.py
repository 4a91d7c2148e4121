"""The file of a recording: records wait in memory until sizes are known, then are written."""

from __future__ import annotations

import json
import threading
from collections import deque
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

    from xlagraph.streams.format import Record
    from xlagraph.streams.record.device import Allocation

_encode = json.JSONEncoder(separators=(",", ":"), check_circular=False).encode


class Journal:
    """Takes records in order and writes them in order.

    A record may be changed until it is written: an allocation gets its size from the
    allocator's history, an operator that turns out to be none is left out (`drop`).
    """

    def __init__(self, path: Path, max_bytes: int):
        self.path = path
        self.records = 0
        self.full = False
        """Whether the bound on the file's size was met: nothing is written any more."""
        self.unsized = 0
        """Allocations that the allocator's history did not have."""
        self._left = max_bytes
        self._waiting: list[Record] = []
        self._lock = threading.Lock()
        self._file = path.open("x", encoding="utf-8")
        self.add = self._waiting.append

    def __len__(self) -> int:
        return len(self._waiting)

    @staticmethod
    def drop(record: Record) -> None:
        """Leaves a record out that was added and is not written yet."""
        record.clear()

    def flush(self, allocations: list[Allocation]) -> None:
        """Writes what is waiting; `allocations` are those made since the last time, in order.

        Raises:
            OSError: the file cannot be written.
        """
        with self._lock:
            count = len(self._waiting)
            waiting = self._waiting[:count]
            del self._waiting[:count]
            self._add_sizes(waiting, allocations)
            lines = [_encode(record) for record in waiting if record]
            self._write(lines)

    def close(self, last: Record) -> None:
        """Ends the file with a record that finds room in any case.

        Raises:
            OSError: the file cannot be written.
        """
        self._file.write(_encode(last) + "\n")
        self._file.close()

    def _add_sizes(self, waiting: list[Record], allocations: list[Allocation]) -> None:
        """Joins allocations to their sizes and streams: by address, and there by order."""
        known: dict[int, deque[Allocation]] = {}
        for one in allocations:
            known.setdefault(one.pointer, deque()).append(one)
        for record in waiting:
            if record.get("k") != "alloc":
                continue
            found = known.get(record["p"])
            if found:
                one = found.popleft()
                record["n"], record["s"] = one.size, one.stream
            else:
                self.unsized += 1

    def _write(self, lines: list[str]) -> None:
        if self.full or not lines:
            return
        text = "\n".join(lines) + "\n"
        if len(text) > self._left:
            self.full = True
            return
        self._left -= len(text)
        self.records += len(lines)
        self._file.write(text)
        self._file.flush()
