"""The short way for a step that is like the ones before it.

Hooks run with cold caches, right after thousands of operations were traced, so what counts is
how little code and memory a stable step touches: a Python function costs some 8 us, the first
read of a counter 12 us, a system call 20 us (measured beside 10,000 traced operations). A step
marker that was called from a known line, made as many tensors as before, left as many in
reduce-scatter buckets, and moved the hit counter by exactly one is told to the sinks as a repeat
of the last event of that kind; anything else takes the long way through the hub.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from time import time_ns
from types import CodeType, FrameType
from typing import Any

from xlagraph.capture.counters import COMPILES, HITS, TENSORS_MADE, Counters
from xlagraph.capture.events import Repeat, Sink, SyncEvent
from xlagraph.capture.fsdp import Buckets, Fill, fill_of
from xlagraph.capture.patches import Guard
from xlagraph.capture.sites import SiteReader

REPEATS = 64
"""Steps after which one goes the long way, where the graph's size is read again."""

Hooked = Callable[..., Any]


@dataclass(slots=True, eq=False)
class _Known:
    """A stable step: from where it is called, and how the sinks are told that it ran again."""

    depth: int
    """Frames from the hooked function up to the user's line."""
    code: CodeType
    instruction: int
    name: str
    repeat: Repeat
    left: int = REPEATS


class SteadySteps:
    """Stable steps by the number of tensors that they make and what waits in buckets."""

    def __init__(
        self, counters: Counters, sites: SiteReader, buckets: Buckets, guard: Guard
    ) -> None:
        self.open = False
        """Whether a step may go the short way now; kept by the hub."""
        self._counters = counters
        self._sites = sites
        self._buckets = buckets
        self._guard = guard
        self._known: dict[tuple[int, Fill], _Known] = {}

    def learn(self, frame: FrameType | None, event: SyncEvent, sinks: Sequence[Sink]) -> None:
        """Remember a hit that took the long way; ``frame`` called the hooked function."""
        place = self._sites.line(frame)
        told = [(sink.name, self._guard.run(sink.name, sink.repeater, event)) for sink in sinks]
        repeats = [(name, repeat) for name, repeat in told if repeat is not None]
        if place is None or len(repeats) < len(told):
            return
        name, repeat = repeats[0] if len(repeats) == 1 else ("sync", self._all_of(repeats))
        depth, code, instruction = place
        kind = self._counters.seen.made_between, fill_of(event.buckets)
        self._known[kind] = _Known(depth + 1, code, instruction, name, repeat)

    def _all_of(self, repeats: Sequence[tuple[str, Repeat]]) -> Repeat:
        def repeat(start: int, end: int) -> None:
            for name, one in repeats:
                self._guard.run(name, one, start, end)

        return repeat

    def forget(self) -> None:
        """Something compiled, or a sink came or left: look anew."""
        self._known.clear()

    def short_way(
        self, original: Hooked, long_way: Hooked, ended: Callable[[int, int, FrameType], None]
    ) -> Hooked:
        """The step marker ``original`` with its hook, in one function: each more costs time.

        ``long_way`` is to run steps that are not known, and ``ended`` is told of those that
        began like a known one and were not a hit. What can be asked before the sync is asked
        then: caches are colder after it.
        """
        value, seen, known_steps = self._counters.value, self._counters.seen, self._known
        buckets, guard, frame_at = self._buckets, self._guard, sys._getframe  # noqa: SLF001
        alive = buckets.alive

        def hooked(*arguments: Any, **options: Any) -> Any:
            if not self.open:
                return long_way(*arguments, **options)
            made = value(TENSORS_MADE)
            fill = (guard.run("fsdp", buckets.fill) or ()) if alive else ()
            known = known_steps.get((made - seen.made, fill))
            try:
                frame = frame_at(known.depth if known is not None else 1)
            except ValueError:  # not that many frames: called from somewhere else
                known = None
            if (
                known is None
                or frame.f_code is not known.code
                or frame.f_lasti != known.instruction
                or not known.left
                or value(HITS) != seen.hits  # something ran unseen
                or value(COMPILES) != seen.compiles
            ):
                return long_way(*arguments, **options)
            start = time_ns()
            result = original(*arguments, **options)
            end = time_ns()
            if value(HITS) != seen.hits + 1 or value(COMPILES) != seen.compiles:
                guard.run("sync", ended, start, end, frame_at(1))
                return result
            known.left -= 1
            seen.hits += 1
            seen.made = made
            try:
                known.repeat(start, end)
            except Exception as error:  # noqa: BLE001 - as Guard.run does, without its call
                guard.fail(known.name, error)
                self.forget()
            return result

        return hooked
