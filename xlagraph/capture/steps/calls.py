"""Hooked calls, and which of them are in flight."""

# ruff: noqa: SLF001 - there is no public way to other threads' stacks

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable
from types import FrameType
from typing import Any

from xlagraph.capture.tensors.live import Pending
from xlagraph.run.records import BucketState


class Call:
    """One hooked call, from its start to its end."""

    __slots__ = (
        "began", "buckets", "entry", "found", "frame", "graph_hash", "is_first", "kind", "new",
        "pending", "shared", "time", "watch",
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
        self.buckets: tuple[BucketState, ...] = ()
        self.pending: Pending | None = None
        self.shared = False  # another thread's call was in flight with it
        self.is_first = True  # nothing ran unseen since the call before
        self.graph_hash: object = None


class Flight:
    """Which threads are in a hooked call that has begun and not ended.

    Ctrl-C may come between any two instructions, also just before the one that would say that
    a call has ended. So what is noted here is taken for true only as long as one of the hooked
    functions is on that thread's stack.
    """

    def __init__(self) -> None:
        self.lock = threading.RLock()
        """Held while what ran is read and taken for a call."""
        self.local = threading.local()
        self.lost = 0
        """Calls that were interrupted in a hook: at most so many are not recorded."""
        self._inside: set[int] = set()
        self._codes: set[int] = set()
        """Of the hooked functions, by ``id``: the hash of code goes through its constants."""

    def watches(self, hooked: Callable[..., Any]) -> None:
        """A function that calls what it hooks, from ``enter`` to ``leave``."""
        self._codes.add(id(hooked.__code__))

    def is_busy(self, caller: FrameType) -> bool:
        """Whether ``caller`` calls as a part of a hooked call, which is told of as a whole."""
        me = threading.get_ident()
        return me in self._inside and self._is_in(me, caller)

    def enter(self) -> None:
        """This thread's call begins."""
        self._inside.add(threading.get_ident())

    def leave(self) -> None:
        """It has ended."""
        self._inside.discard(threading.get_ident())

    def others(self) -> bool:
        """Whether another thread is in a hooked call."""
        me = threading.get_ident()
        others = [thread for thread in tuple(self._inside) if thread != me]
        if not others:
            return False
        frames = sys._current_frames()
        found = [self._is_in(thread, frames.get(thread)) for thread in others]
        return any(found)

    def _is_in(self, thread: int, frame: FrameType | None) -> bool:
        while frame is not None:
            if id(frame.f_code) in self._codes:
                return True
            frame = frame.f_back
        self._inside.discard(thread)
        self.lost += 1
        return False

    def after_fork(self) -> None:
        """In a forked child: locks and threads of the parent are gone."""
        self.lock = threading.RLock()
        self.local = threading.local()
        self._inside.clear()
        self.lost = 0
