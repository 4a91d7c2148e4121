"""Hooked calls, and which of them are in flight."""

from __future__ import annotations

import threading
import time
from types import FrameType

from xlagraph.capture.live import Pending
from xlagraph.run.records import BucketState


class Call:
    """One hooked call, from its start to its end."""

    __slots__ = (
        "began", "buckets", "entry", "found", "frame", "graph_hash", "inside", "is_first", "kind",
        "new", "pending", "shared", "time", "watch",
    )  # fmt: skip

    def __init__(self, kind: str, entry: str, frame: FrameType | None) -> None:
        self.kind = kind
        self.entry = entry
        self.frame = frame
        self.time = time.time()
        self.watch = time.perf_counter()
        self.new = 0  # graphs that it compiled
        self.found = 0  # and those that it had from the compile cache
        self.began = 0  # graphs that had run before it
        self.inside = 0  # 1 while it is among the calls in flight
        self.buckets: tuple[BucketState, ...] = ()
        self.pending: Pending | None = None
        self.shared = False  # another thread's call was in flight with it
        self.is_first = True  # nothing ran unseen since the call before
        self.graph_hash: object = None


class Flight:
    """How many hooked calls have begun and not ended, and whether this thread is in one."""

    def __init__(self) -> None:
        self.lock = threading.RLock()
        """Held while what ran is read and taken for a call."""
        self.local = threading.local()
        self.inside = 0

    @property
    def is_busy(self) -> bool:
        """Whether this thread is in a hooked call: what it calls is part of that."""
        return getattr(self.local, "busy", False)

    def leave(self) -> None:
        """This thread's call has ended."""
        self.local.busy = False
        with self.lock:
            self.inside -= 1

    def after_fork(self) -> None:
        """In a forked child: locks and threads of the parent are gone."""
        self.lock = threading.RLock()
        self.local = threading.local()
        self.inside = 0
