"""The short way for a step that is like the ones before it.

Hooks run with cold caches, right after thousands of operations were traced, so what counts is
how little code and memory a stable step touches: a Python function costs some 8 us, the first
read of a counter 9 us, a system call 25 us (measured beside 10,000 traced operations). So one
counter is read before the sync, and the rest after it. A step marker that was called from a known
line, made as many tensors as before, left as many in reduce-scatter buckets, and moved the hit
counter by exactly one is a repeat of the last event of that footprint. One that made another
number of tensors goes the long way from the start, since it may compile: what it is about to
compute has names only before it runs. Its times are stored in shared memory, and the sinks
are told of it in a bunch with others: when something else is to be told, when the cells are full,
or after ``PATIENCE_NS``. Of anything else the hub finds out after the fact.
"""

# ruff: noqa: SLF001 - locks and frames tell by private names whose they are

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import count
from threading import get_ident
from time import time_ns
from types import CodeType, FrameType
from typing import Any

from xlagraph.capture.host.patches import Guard
from xlagraph.capture.places.sites import MAX_FRAMES, SiteReader
from xlagraph.capture.steps.counters import COMPILES, HITS, TENSORS_MADE, Counters
from xlagraph.capture.steps.events import Repeat, Sink, SyncEvent
from xlagraph.capture.tensors.fsdp import Buckets, Fill, fill_of
from xlagraph.run.journal import CELLS, FIRST, PER_STEP, new_cells
from xlagraph.run.records import Frame

PATIENCE_NS = 30_000_000_000
"""For so long a step may wait in shared memory."""
REPEATS = 1024
"""Steps after which one goes the long way, where the graph's size is read: 3 ms, see below."""

_AT_ONCE = 8 * PER_STEP
"""Cells that are told of together: whoever asks for 1 kB of memory, as for more lines than those
of 8 steps, has the allocator tidy up first what a step's operations left (3 ms for 10,000)."""
_NOTHING = new_cells()

Hooked = Callable[..., Any]
StepLine = tuple[int, FrameType]
"""A line: frames up from the hooked function's caller, and the frame that is there."""
Callers = tuple[tuple[CodeType, int], ...]
"""Code and instruction, innermost first."""
Footprint = int | tuple[int, Fill]
"""Tensors that a step makes and, in programs with buckets, what it leaves in them."""


@dataclass(slots=True, eq=False)
class _Known:
    """A stable step: from where it is called, and what it is called in the cells."""

    code: CodeType
    instruction: int
    callers: Callers
    """Who called it; empty for a line that always had the same callers."""
    number: int
    """What it is called in the cells."""


def _callers_of(frame: FrameType | None) -> Callers:
    found: list[tuple[CodeType, int]] = []
    while frame is not None and len(found) <= MAX_FRAMES:
        frame = frame.f_back
        if frame is not None:
            found.append((frame.f_code, frame.f_lasti))
    return tuple(found)


class SteadySteps:
    """Stable steps, and those of them that the sinks are not yet told of."""

    __slots__ = (
        "_at", "_buckets", "_cells", "_counters", "_depth", "_due", "_guard",
        "_known", "_left", "_lock", "_now_and_then", "_numbers", "_own_cells", "_patience",
        "_sites", "_tellers", "_thread", "is_stepping", "lost", "open",
    )  # fmt: skip

    def __init__(
        self,
        counters: Counters,
        sites: SiteReader,
        buckets: Buckets,
        guard: Guard,
        now_and_then: Callable[[], None],
    ) -> None:
        self.open = False
        """Whether steps may go the short way."""
        self.is_stepping = False
        """Whether a step that goes the short way is in flight."""
        self.lost = 0
        """Steps that were interrupted here: at most so many are not recorded."""
        self._counters = counters
        self._sites = sites
        self._buckets = buckets
        self._guard = guard
        self._now_and_then = now_and_then
        """What is due while steps go the short way, every half minute at least."""
        self._known: dict[Footprint, _Known] = {}
        self._tellers: dict[int, Sequence[tuple[str, Repeat]]] = {}
        """By number: the names of sinks, and how each is told."""
        self._depth = 1
        """Frames from the hooked function up to the user's line, in the step learned last."""
        self._own_cells = new_cells()
        self._cells = self._own_cells
        self._at = FIRST
        """The first free cell."""
        self._patience = 0
        self._due = 0
        """When the sinks are to be told, Unix time in ns."""
        self._numbers = count(1)
        self._left = REPEATS
        """Steps until one goes the long way again."""
        self._lock: Any = threading.RLock()
        """Another thread's reads of values are told of too."""
        self._thread = 0
        """The one whose steps are known."""

    def allow(self, *, may: bool) -> None:
        """Open the short way, or close it."""
        self.open = may
        if not may:
            self.forget()

    def line(self, frame: FrameType | None, site: tuple[Frame, ...]) -> StepLine | None:
        """The line of a step whose hooked function ``frame`` called; None if it is not known."""
        line = self._sites.line(frame)
        if line is None:
            return None
        if not self._sites.is_shared(line[1]) and self._sites.is_shared(line[1], site):
            self.forget()  # it was known by its line alone
        return line

    def learn(self, line: StepLine, event: SyncEvent, sinks: Sequence[Sink]) -> None:
        """Remember a hit that took the long way."""
        self.drain()
        told = [(sink.name, self._guard.run(sink.name, sink.repeater, event)) for sink in sinks]
        tellers = [(name, repeat) for name, repeat in told if repeat is not None]
        if len(tellers) < len(told):
            return
        # Cells outlive the process for one sink, in whose terms they are filled.
        cells = sinks[0].cells if len(sinks) == 1 else None
        self._cells = self._own_cells if cells is None else cells
        self._patience = 0 if cells is None else PATIENCE_NS
        self._due = time_ns() + self._patience
        number = next(self._numbers) if cells is None else tellers[0][1].number
        if not self._known:
            self._tellers.clear()
            self._left = REPEATS
        made = self._counters.seen.made_between
        footprint = (made, fill_of(event.buckets)) if self._buckets.alive else made
        depth, frame = line
        code, instruction = frame.f_code, frame.f_lasti
        callers = _callers_of(frame) if self._sites.is_shared(frame) else ()
        self._depth = depth + 1
        self._thread = get_ident()
        if footprint in self._known:
            self._tellers.pop(self._known[footprint].number, None)  # drained above
        self._tellers[number] = tellers
        self._known[footprint] = _Known(code, instruction, callers, number)

    def drain(self) -> None:
        """Tell the sinks of the steps that they are not yet told of."""
        if self._at == FIRST or self._lock._is_owned():
            return  # it is being done: a sink failed meanwhile, or a signal's handler asks
        try:
            with self._lock:
                self._tell_all()
        finally:
            if self._at == CELLS:  # Ctrl-C: the rest was to be told the next time, but
                self._at = FIRST  # there is no room for another step

    def _tell_all(self) -> None:
        cells, first = self._cells, FIRST
        while first < self._at:  # more steps may end meanwhile
            last = min(first + _AT_ONCE, self._at)
            self._due = cells[last - 1] + self._patience
            try:
                self._tell(cells[first:last].tolist())
            finally:  # Ctrl-C mostly comes when they are written
                cells[first:last] = _NOTHING[: last - first]
            first = last
        # No other thread comes between, for nothing was called since they were compared.
        self._at = FIRST
        self._left -= (first - FIRST) // PER_STEP
        if self._left <= 0:
            self._known.clear()
        self._guard.run("disk", self._now_and_then)

    def _tell(self, numbers: list[int]) -> None:
        first = 0
        for at in range(PER_STEP, len(numbers) + 1, PER_STEP):
            if at == len(numbers) or numbers[at] != numbers[first]:
                starts = numbers[first + 1 : at : PER_STEP]
                ends = numbers[first + 2 : at : PER_STEP]
                for name, repeat in self._tellers.get(numbers[first], ()):
                    self._guard.run(name, repeat.tell, starts, ends)
                first = at

    def forget(self) -> None:
        """Something compiled, or a sink came or left: look anew."""
        self.drain()
        self._known.clear()

    def let_go(self) -> None:
        """A sink is about to leave: keep nothing of it."""
        self.forget()
        self._tellers.clear()
        self._cells = self._own_cells

    def abandon(self) -> None:
        """In a forked child: what waits is the parent's to tell, and so are its threads."""
        self._lock = threading.RLock()
        self.is_stepping = False
        self.lost = 0
        self._at = FIRST
        self._cells = self._own_cells
        self._known.clear()

    def _has_stepped(self) -> None:
        if self.is_stepping and get_ident() == self._thread:
            self.is_stepping = False  # Ctrl-C came just before it was

    def short_way(self, original: Hooked, long_way: Hooked, ended: Callable[..., None]) -> Hooked:
        """The step marker ``original`` with its hook, in one function: each more costs time.

        ``long_way`` is to run steps while none is known, and ``ended`` is told of those that
        turn out to be no known ones.
        """
        value, seen, known_steps = self._counters.value, self._counters.seen, self._known
        buckets, guard, frame_at = self._buckets, self._guard, sys._getframe
        alive = buckets.alive

        def hooked(*arguments: Any, **options: Any) -> Any:
            if not known_steps:
                self._has_stepped()
                return long_way(*arguments, **options)
            fill = guard.run("fsdp", buckets.fill) if alive else None
            try:
                frame = frame_at(self._depth)
                code, instruction = frame.f_code, frame.f_lasti
                made = value(TENSORS_MADE) or 0  # the sync itself makes none
            except ValueError:  # not that many frames: called from somewhere else
                return long_way(*arguments, **options)
            new = made - seen.made
            known = known_steps.get(new if fill is None else (new, fill))
            if known is None:
                return long_way(*arguments, **options)
            start = time_ns()
            self.is_stepping = True
            try:
                result = original(*arguments, **options)
            except BaseException:
                self.is_stepping = False
                guard.run("sync", ended, start, time_ns(), frame_at(1), raised=True)
                raise
            self.is_stepping = False
            end = time_ns()
            hits = value(HITS)
            if (
                hits != seen.hits + 1
                or (value(COMPILES) or 0) != seen.compiles
                or code is not known.code
                or instruction != known.instruction
                or (known.callers and known.callers != _callers_of(frame))
            ):
                guard.run("sync", ended, start, end, frame_at(1))
                return result
            try:
                seen.hits = hits
                seen.made = made
                # Nothing is called before the cells are filled: no other thread comes between.
                at = self._at
                cells = self._cells
                cells[at] = known.number
                cells[at + 1] = start
                cells[at + 2] = end
                self._at = at = at + PER_STEP
                if end > self._due or at == CELLS:
                    self.drain()
            except Exception as error:  # noqa: BLE001 - as Guard.run does, without its call
                guard.fail("sync", error)
                known_steps.clear()
            except BaseException:  # Ctrl-C
                self.lost += 1
                raise
            return result

        return hooked
