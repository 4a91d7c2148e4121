"""The one place where hooks meet: sees each sync once and tells every sink.

Two captures at once share the hooks, the dump folder and the counters. Stable steps take the
short way of ``xlagraph.capture.steady``; the costly looks (live tensors, flushes) happen only
while the hub is armed: at the start, for some steps after each compile, and where a sink asks
for them.
"""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable
from types import FrameType
from typing import Any

from xlagraph.capture.counters import Counters, Ran
from xlagraph.capture.dump import Dump
from xlagraph.capture.events import CompiledGraph, Sink, SyncEvent
from xlagraph.capture.evidence import Evidence
from xlagraph.capture.fsdp import Buckets
from xlagraph.capture.live import Pending
from xlagraph.capture.names import Names
from xlagraph.capture.patches import Guard, Patches
from xlagraph.capture.running import DynamoGraphs, RunningGraphs
from xlagraph.capture.sites import SiteReader
from xlagraph.capture.steady import SteadySteps
from xlagraph.run.codec import NANOSECONDS
from xlagraph.run.records import PERSISTENT_CACHE, BucketState, Frame, LiveTensor

RUN_CACHED = "run_cached"
_WAYS_IN = (
    ("_xla_step_marker", "step", "sync"),
    ("_xla_sync_multi", "other", "sync_multi"),
    ("_xla_sync_live_tensors", "other", "sync_live"),
    ("_xla_warm_up_cache", "dynamo", "warm_up"),
    ("_run_cached_graph", "dynamo", RUN_CACHED),
)
_DYNAMO_ENTRIES = frozenset({"warm_up", RUN_CACHED})
_LOADED = (
    "graphs came from torch_xla's persistent cache: they count as hits, and as they were not "
    "compiled here, their modules are not known"
)
_SPENT = (
    "searching for live tensors has taken its share of the time beside compiling: from here "
    "some compiles have no tensor names; XLAGRAPH=2 looks at every step"
)
_VALUE_ENTRIES = frozenset({"unlazy", "save"})


class _Call:
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
        self.inside = 0  # 1 while it is among the hub's calls in flight
        self.buckets: tuple[BucketState, ...] = ()
        self.pending: Pending | None = None
        self.shared = False  # another thread's call was in flight with it
        self.is_first = True  # nothing ran unseen since the call before
        self.graph_hash: object = None


class Hub:
    """Hooks and what they share, for one process."""

    def __init__(self, xlac: Any, dump: Dump | None, arm_steps: int) -> None:
        self.arm_steps = arm_steps
        self.sinks: list[Sink] = []
        self.guard = Guard(self._tell)
        self.counters = Counters(xlac)
        names = Names()
        self.buckets = Buckets(names, self.guard, self._flushed)
        self.evidence = Evidence(xlac, dump, names, self.counters.now())
        self._xlac = xlac
        self._patches = Patches()
        self._sites = SiteReader()
        self._running = RunningGraphs()
        self._dynamo = DynamoGraphs()
        self._seen = self.counters.seen
        self._steady = SteadySteps(self.counters, self._sites, self.buckets, self.guard)
        self._local = threading.local()
        self._lock = threading.RLock()
        self._inside = 0
        self._armed = arm_steps
        self._asked = 0
        self._close = True
        self._spent_noted = False
        self._threads: set[int] = set()

    def install(self) -> None:
        """Patch ``_XLAC``'s ways into a sync."""
        for name, kind, entry in _WAYS_IN:
            self._patches.replace(self._xlac, name, self.wrapper(kind, entry))
        self._patches.replace(self._xlac, "_get_graph_hash", self._wrap_hash)

    def uninstall(self) -> None:
        """Take the hooks out again."""
        self.buckets.uninstall()
        self._patches.undo()

    def _wrap_hash(self, original: Callable[..., Any]) -> Callable[..., Any]:
        def get_graph_hash(*arguments: Any, **options: Any) -> Any:
            graph_hash = original(*arguments, **options)
            self._dynamo.hashed(graph_hash)
            return graph_hash

        return get_graph_hash

    def begin(self) -> None:
        """A sink joins: arm, and forget what happened while nobody listened."""
        ran = self.counters.now()
        if ran.compiles != self._seen.compiles:
            self._running.knows_all = False
        self._seen.compiles, self._seen.hits = ran.compiles, ran.hits
        self.arm()

    def settle(self) -> None:
        """Tell of what ran since the last hook: a sink is about to leave."""
        self._steady.let_go()
        if not self._in_flight():
            self._unseen(self.counters.now())

    def arm(self) -> None:
        """Look closely at the next steps."""
        self._armed = self.arm_steps
        self._close = self.buckets.armed = True
        self._steady.allow(may=False)

    def ask(self) -> None:
        """Look closely at the next steps whatever it costs; safe in a signal's handler."""
        self._asked = max(self.arm_steps, 1)
        self.arm()

    def after_fork(self) -> None:
        """In a forked child: locks and threads of the parent are gone, its dump is not ours."""
        self._lock = threading.RLock()
        self._local = threading.local()
        self._inside = 0
        self._steady.abandon()
        self.evidence.dump = None

    def wrapper(self, kind: str, entry: str) -> Callable[[Any], Any]:
        """Makes the hooked form of a function that may sync."""

        def make(original: Callable[..., Any]) -> Callable[..., Any]:
            def hooked(*arguments: Any, **options: Any) -> Any:
                caller = sys._getframe(above)  # noqa: SLF001 - no public way
                call = self.guard.run("sync", self.before, kind, entry, caller)
                if call is None:
                    return original(*arguments, **options)
                if entry == RUN_CACHED:
                    call.graph_hash = arguments[0] if arguments else None
                try:
                    return original(*arguments, **options)
                finally:
                    self.end("sync", call)

            if kind != "step":
                above = 1
                return hooked
            above = 2
            return self._steady.short_way(original, hooked, self._ended)

        return make

    def _ended(self, start: int, end: int, frame: FrameType, *, raised: bool = False) -> None:
        """A step marker has ended that went the short way and is no known step."""
        call = _Call("step", "sync", frame)
        call.time = start / NANOSECONDS
        self._local.busy = True
        try:
            call.shared = self._in_flight()
            ran = self.counters.now()
            new, found = ran.compiles - self._seen.compiles, ran.hits - self._seen.hits
            if raised or (new == 0 and 0 <= found <= 1):
                # It alone can have run something; one that raised may have left no samples.
                call.began = self._seen.compiles + self._seen.hits
                self._find(call)
            else:
                self._begin(call, self.counters.before(call.time))
            call.watch = time.perf_counter() - (end - start) / NANOSECONDS
            self._after(call)
        finally:
            self._local.busy = False

    def _begin(self, call: _Call, ran: Ran) -> None:
        """Tell of what ran unseen before ``call``, and what it finds."""
        call.began = ran.graphs
        if not call.shared and self._unseen(ran):
            self._steady.forget()  # so that the next step is looked at before it runs
            call.is_first = False
        self._find(call)

    def _find(self, call: _Call) -> None:
        if call.kind != "value" and self.buckets.alive:
            call.buckets = self.guard.run("fsdp", self.buckets.waiting) or ()

    def before(self, kind: str, entry: str, caller: FrameType) -> _Call | None:
        """A hooked function was called by ``caller``; None when it is not to be looked at."""
        if getattr(self._local, "busy", False) or not (self.sinks or self.evidence.dump):
            return None
        call = _Call(kind, entry, caller)
        try:
            with self._lock:
                call.shared = self._in_flight()
                self._begin(call, self.counters.now())
                self._inside += 1
                call.inside = 1
            self._local.busy = True
            if kind == "step" and self._close and self._looks_closely():
                waiting = self.guard.run("fsdp", self.buckets.waiting_tensors) or {}
                call.pending = self.guard.run("live", self.evidence.look, waiting)
                call.watch = time.perf_counter()
        except BaseException:  # Ctrl-C: nobody will tell when the call ends
            if call.inside:
                self._leave()
            raise
        return call

    def _looks_closely(self) -> bool:
        """Whether to search for live tensors: asked for, or armed and worth its time."""
        if not self.sinks:
            return False
        if self._asked or self._wants_deep() or self.evidence.can_afford():
            return True
        if not self._spent_noted:
            self._spent_noted = True
            self._note("looked away", _SPENT)
        return False

    def _wants_deep(self) -> bool:
        for sink in self.sinks:  # noqa: SIM110 - any() takes a microsecond at every step
            if sink.wants_deep():
                return True
        return False

    def end(self, hook: str, call: _Call) -> None:
        """The function that ``before`` was told of has returned or raised."""
        try:
            self.guard.run(hook, self._after, call)
        finally:  # also after Ctrl-C
            self._leave()

    def _leave(self) -> None:
        self._local.busy = False
        with self._lock:
            self._inside -= 1

    def _after(self, call: _Call) -> None:
        seconds = time.perf_counter() - call.watch
        frame, call.frame = call.frame, None
        with self._lock:
            call.shared = call.shared or self._in_flight(beside=call.inside)
            ran = self.counters.now()
            if call.entry != RUN_CACHED:  # which runs a graph by its hash and counts as neither
                self._take(call, ran)
        if call.kind == "value" and not (call.new or call.found) and ran.graphs <= call.began + 1:
            return  # another thread's sync had it computed meanwhile
        site, entry = self._sites.read(frame)
        if call.kind == "step" and entry in ("compile", "compile_begin"):
            call.kind = "compile"
        elif entry.startswith("dynamo"):
            call.kind = "dynamo"
            entry = call.entry if call.entry in _DYNAMO_ENTRIES else entry
        elif entry in _VALUE_ENTRIES:
            call.kind = "value"
        call.entry = entry or call.entry
        event = self._emit(call, ran, site, seconds)
        if event is not None and event.kind == "step":
            place = self._steady.place(frame, site)
            if (
                place is not None
                and event.outcome == "hit"
                and self._steady.open
                and self._running.may_repeat()
            ):
                self._steady.learn(place, event, self.sinks)
        if call.pending is not None:
            waiting = self.guard.run("fsdp", self.buckets.waiting_ids) or {}
            self.guard.run("live", self.evidence.remember, waiting)

    def _emit(
        self, call: _Call, ran: Ran, site: tuple[Frame, ...], seconds: float
    ) -> SyncEvent | None:
        new, found = call.new, call.found
        compiled: tuple[CompiledGraph, ...] = ()
        compile_seconds = 0.0
        if new:
            with self._lock:
                compile_seconds = self.evidence.compile_seconds(ran)
                compiled = self.guard.run("dump", self.evidence.take, call.pending, new, ran) or ()
        digests = tuple(one.digest for one in compiled)
        if not self.sinks:
            if new:  # a later hit may run it
                self._running.of((0, ""), digests, "compile", ran)
            return None
        outcome = "compile" if new else "hit" if found else "empty"
        if found and self._running.knows_all and self.counters.loaded():
            self._running.knows_all = False
            self._note(PERSISTENT_CACHE, _LOADED)
        if call.entry == RUN_CACHED:
            outcome = "hit"
        elif self._is_unsure(call, ran):
            outcome = "unknown"
            self._running.knows_all = self._running.knows_all and not new
        if not site and compiled:
            site = self._sites.from_analysis(compiled[0].analysis)
        graphs, fingerprint, is_inferred = self._graphs(call, ran, site, digests, outcome)
        event = SyncEvent(
            rank=self._rank(),
            time=call.time,
            seconds=seconds,
            kind=call.kind,
            entry=call.entry,
            ends_step=call.kind == "step" or call.entry == "compile",
            outcome=outcome,
            compile_seconds=compile_seconds,
            compiled=compiled,
            graphs=graphs,
            graph_is_inferred=is_inferred,
            fingerprint=fingerprint,
            call_site=site,
            live_tensors=_live_tensors(call, compiled),
            asked=self._asked > 0,
            buckets=call.buckets,
        )
        self._rearm(event)
        for sink in self._listeners():
            self.guard.run(sink.name, sink.on_sync, event)
        return event

    def _graphs(
        self,
        call: _Call,
        ran: Ran,
        site: tuple[Frame, ...],
        digests: tuple[str, ...],
        outcome: str,
    ) -> tuple[tuple[str, ...], tuple[int, ...], bool]:
        """Digests that ran, the fingerprint, and whether the digests are only concluded."""
        if call.entry == RUN_CACHED:
            return self._dynamo.of(call.graph_hash), (), False
        if call.entry == "warm_up":
            self._dynamo.warmed(digests)
        graph_hash = call.pending.key.graph if call.pending is not None else ""
        graphs, fingerprint = self._running.of(
            (id(site), call.entry), digests, outcome, ran, graph_hash, is_first=call.is_first
        )
        return graphs, fingerprint, bool(graphs) and outcome == "hit"

    def _rearm(self, event: SyncEvent) -> None:
        if event.outcome == "compile":
            self._armed = self.arm_steps
            self._steady.forget()
        elif event.ends_step and self._armed:
            self._armed -= 1
        if event.ends_step:
            self._asked -= self._asked > 0
            self._threads.add(threading.get_ident())
        self._close = self.buckets.armed = self._armed + self._asked > 0 or self._wants_deep()
        self._steady.allow(
            may=not self._close
            and len(self._threads) <= 1
            and not any(sink.may_want_deep for sink in self.sinks)
        )

    def _take(self, call: _Call, ran: Ran) -> None:
        """Take for ``call`` what had run and is not told of yet."""
        seen = self._seen
        call.new, call.found = max(ran.compiles - seen.compiles, 0), max(ran.hits - seen.hits, 0)
        seen.compiles, seen.hits = ran.compiles, ran.hits
        if call.shared and not call.new and call.found > 1:
            # A sync runs one graph: the others are those of the calls that are still in flight.
            seen.hits -= call.found - 1
            call.found = 1

    @staticmethod
    def _is_unsure(call: _Call, ran: Ran) -> bool:
        """Whether several graphs ran during the call, and other calls may have run some."""
        ran_meanwhile = ran.graphs - call.began
        return ran_meanwhile > 1 and (call.shared or ran_meanwhile != call.new + call.found)

    def _unseen(self, ran: Ran) -> bool:
        """Tell of what ran between two hooks: through C++ alone, such as ``.to("cpu")``.

        True where the counters say something else than the last time, cleared ones too.
        """
        before = self._seen.compiles, self._seen.hits
        call = _Call("value", "unseen", None)
        call.began = sum(before)
        self._take(call, ran)
        call.time = min(call.time, ran.until)
        if call.new or call.found:
            self._emit(call, ran, (), 0.0)
        return before != (ran.compiles, ran.hits)

    def _in_flight(self, *, beside: int = 0) -> bool:
        """Whether hooked calls have begun and not ended, other than ``beside`` so many."""
        return self._inside > beside or self._steady.is_stepping

    def _rank(self) -> int:
        rank: int | None = getattr(self._local, "rank", None)
        if rank is None:
            import torch_xla.runtime

            rank = self._local.rank = int(torch_xla.runtime.global_ordinal())
        return rank

    def _listeners(self) -> list[Sink]:
        """The sinks, for whatever is to be told: they hear first of the steps before it."""
        self._steady.drain()
        return list(self.sinks)

    def _flushed(self, before: BucketState, emptied: bool) -> None:  # noqa: FBT001 - a fact
        for sink in self._listeners():
            self.guard.run(sink.name, sink.on_flush, before, emptied)

    def _note(self, what: str, detail: str) -> None:
        for sink in self._listeners():
            self.guard.run(sink.name, sink.on_note, what, detail)

    def _tell(self, what: str, detail: str) -> None:
        for sink in self._listeners():
            if not self.guard.is_off(sink.name):
                sink.on_note("hook off", f"{what}: {detail}")


def _live_tensors(call: _Call, compiled: tuple[CompiledGraph, ...]) -> tuple[LiveTensor, ...]:
    if compiled and compiled[0].live_tensors:
        return compiled[0].live_tensors
    return call.pending.tensors if call.pending is not None else ()
