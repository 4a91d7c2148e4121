"""Tells every sink what the hooks saw, in order: first of the stable steps before it."""

from __future__ import annotations

from collections.abc import Callable

from xlagraph.capture.host.patches import Guard
from xlagraph.capture.steps.events import Sink, SyncEvent
from xlagraph.run.records import BucketState


def _nothing() -> None:
    """There are no stable steps."""


class Dispatch:
    """The sinks of a process, and the guard that keeps them from hurting the program."""

    def __init__(self) -> None:
        self.sinks: list[Sink] = []
        self.guard = Guard(self._failed)
        self.drain: Callable[[], None] = _nothing
        """Tells the sinks of the stable steps that they do not know of yet."""

    def event(self, event: SyncEvent) -> None:
        """A sync has ended."""
        for sink in self._listeners():
            self.guard.run(sink.name, sink.on_sync, event)

    def flush(self, before: BucketState, emptied: bool) -> None:  # noqa: FBT001 - a fact
        """A reduce-scatter bucket was asked to flush."""
        for sink in self._listeners():
            self.guard.run(sink.name, sink.on_flush, before, emptied)

    def note(self, what: str, detail: str) -> None:
        """Something that the reader of a run should know."""
        for sink in self._listeners():
            self.guard.run(sink.name, sink.on_note, what, detail)

    def _failed(self, what: str, detail: str) -> None:
        for sink in self._listeners():
            if not self.guard.is_off(sink.name):
                sink.on_note("hook off", f"{what}: {detail}")

    def _listeners(self) -> list[Sink]:
        self.drain()
        return list(self.sinks)
