"""The short way for a step that is like the ones before it.

Hooks run with cold caches, right after thousands of operations were traced, so what counts is
how little code and memory a stable step touches. A step marker that was called from a known
line, made as many tensors as before, and moved the hit counter by exactly one is recorded by
repeating the last event of that kind; anything else takes the long way through the hub.
"""

from __future__ import annotations

from types import FrameType

from xlagraph.capture.counters import Counters
from xlagraph.capture.events import SyncEvent
from xlagraph.capture.running import RunningGraphs
from xlagraph.capture.sites import SiteReader

REPEATS = 64
"""Steps after which one goes the long way, where the graph's size is read again."""

Key = tuple[int, int, int]


class SteadySteps:
    """Events of stable steps, by the user's line and the number of tensors made."""

    def __init__(self, counters: Counters, sites: SiteReader, running: RunningGraphs) -> None:
        self._counters = counters
        self._sites = sites
        self._running = running
        self._known: dict[Key, SyncEvent] = {}
        self._left: dict[Key, int] = {}

    def learn(self, frame: FrameType | None, event: SyncEvent) -> None:
        """Remember a hit that took the long way; its sync was the last one made."""
        line = self._sites.line(frame)
        if line is not None:
            key = (*line, self._running.made_between)
            self._known[key] = event
            self._left[key] = REPEATS

    def forget(self) -> None:
        """Something compiled, or a sink came or left: look anew."""
        self._known.clear()

    def recall(self, frame: FrameType) -> SyncEvent | None:
        """The event that a step called from ``frame`` repeats, or None: the long way."""
        line = self._sites.line(frame)
        if line is None:
            return None
        made = self._counters.tensors_made()
        key = (*line, made - self._running.made)
        event = self._known.get(key)
        if event is None:
            return None
        self._left[key] -= 1
        if self._left[key] < 0:
            del self._known[key]
            return None
        self._running.made = made
        return event
