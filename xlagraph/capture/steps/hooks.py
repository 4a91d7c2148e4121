"""The hooks on torch_xla's ways into a sync: each call is seen once, from its start to its end.

Stable steps take the short way of ``xlagraph.capture.steps.steady``.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from types import FrameType
from typing import Any

from xlagraph.capture.host.identity import identity
from xlagraph.capture.host.patches import Patches
from xlagraph.capture.steps.accounting import RUN_CACHED, Accounting, Compiled
from xlagraph.capture.steps.arming import Arming
from xlagraph.capture.steps.calls import Call
from xlagraph.capture.steps.counters import Ran
from xlagraph.capture.steps.events import SyncEvent
from xlagraph.capture.steps.parts import Parts
from xlagraph.run.codec import NANOSECONDS
from xlagraph.run.records import NO_GRAPH, Frame, LiveTensor, ends_step

_WAYS_IN = (
    ("_xla_step_marker", "step", "sync"),
    ("_xla_sync_multi", "other", "sync_multi"),
    ("_xla_sync_live_tensors", "other", "sync_live"),
    ("_xla_warm_up_cache", "dynamo", "warm_up"),
    ("_run_cached_graph", "dynamo", RUN_CACHED),
)
_DYNAMO_ENTRIES = frozenset({"warm_up", RUN_CACHED})
_VALUE_ENTRIES = frozenset({"unlazy", "save"})


class Hooks:
    """What runs around each hooked call."""

    def __init__(self, parts: Parts, arming: Arming, accounts: Accounting) -> None:
        self.guard = parts.dispatch.guard
        self._counters = parts.counters
        self._flight = parts.flight
        self._sites = parts.sites
        self._buckets = parts.buckets
        self._steady = parts.steady
        self._evidence = parts.evidence
        self._dispatch = parts.dispatch
        self._arming = arming
        self._accounts = accounts
        self.watches = parts.flight.watches
        self._patches = Patches()

    def install(self, xlac: Any) -> None:
        """Patch ``_XLAC``'s ways into a sync."""
        for name, kind, entry in _WAYS_IN:
            self._patches.replace(xlac, name, self._wrapper(kind, entry))
        self._patches.replace(xlac, "_get_graph_hash", self._wrap_hash)

    def uninstall(self) -> None:
        """Take the hooks out again."""
        self._patches.undo()

    def _wrap_hash(self, original: Callable[..., Any]) -> Callable[..., Any]:
        def get_graph_hash(*arguments: Any, **options: Any) -> Any:
            graph_hash = original(*arguments, **options)
            self._accounts.dynamo.hashed(graph_hash)
            return graph_hash

        return get_graph_hash

    def _wrapper(self, kind: str, entry: str) -> Callable[[Any], Any]:
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

            self._flight.watches(hooked)
            if kind != "step":
                above = 1
                return hooked
            above = 2
            outer = self._steady.short_way(original, hooked, self._ended)
            self._flight.watches(outer)
            return outer

        return make

    def before(self, kind: str, entry: str, caller: FrameType) -> Call | None:
        """A hooked function was called by ``caller``; None when it is not to be looked at."""
        flight = self._flight
        if flight.is_busy(caller) or not (self._dispatch.sinks or self._evidence.dump):
            return None
        dump = self._evidence.dump
        if dump is not None and dump.is_new:
            self.guard.run("dump", dump.begin)
        self.guard.run("disk", self._evidence.keep_room)
        call = Call(kind, entry, caller)
        try:
            with flight.lock:
                call.shared = self._accounts.in_flight()
                self._begin(call, self._counters.now())
                flight.enter()
            arming = self._arming
            close = kind == "step" and (arming.is_close or arming.is_unusual())
            if close and arming.looks_closely():
                deep = arming.is_deep()
                with self._counters.apart():
                    waiting = self.guard.run("fsdp", self._buckets.waiting_tensors) or {}
                    call.pending = self.guard.run("live", self._evidence.look, waiting, deep)
                call.watch = time.perf_counter()
        except BaseException:  # Ctrl-C: nobody will tell when the call ends
            flight.leave()
            raise
        return call

    def end(self, hook: str, call: Call) -> None:
        """The function that ``before`` was told of has returned or raised."""
        try:
            self.guard.run(hook, self._after, call)
        except BaseException:  # Ctrl-C
            self._flight.lost += 1
            raise
        finally:
            self._flight.leave()

    def _ended(self, start: int, end: int, frame: FrameType, *, raised: bool = False) -> None:
        """A step marker has ended that went the short way and is no known step."""
        call = Call("step", "sync", frame)
        call.time = start / NANOSECONDS
        self._flight.enter()
        try:
            call.shared = self._accounts.in_flight()
            ran, seen = self._counters.now(), self._counters.seen
            new, found = ran.compiles - seen.compiles, ran.hits - seen.hits
            if raised or (new == 0 and 0 <= found <= 1):
                # It alone can have run something; one that raised may have left no samples.
                call.began = seen.compiles + seen.hits
                self._find(call)
            else:
                self._begin(call, self._counters.before(call.time))
            call.watch = time.perf_counter() - (end - start) / NANOSECONDS
            self._after(call)
        except BaseException:
            self._flight.lost += 1
            raise
        finally:
            self._flight.leave()

    def _begin(self, call: Call, ran: Ran) -> None:
        """Tell of what ran unseen before ``call``, and what it finds."""
        call.began = ran.graphs
        if not call.shared and self.unseen(ran):
            self._steady.forget()  # so that the next step is looked at before it runs
            call.is_first = False
        self._find(call)

    def _find(self, call: Call) -> None:
        if call.kind != "value" and self._buckets.alive:
            call.buckets = self.guard.run("fsdp", self._buckets.waiting) or ()

    def unseen(self, ran: Ran) -> bool:
        """Tell of what ran between two hooks: through C++ alone, such as ``.to("cpu")``.

        True where the counters say something else than the last time, cleared ones too.
        """
        seen = self._counters.seen
        before = seen.compiles, seen.hits
        call = Call("value", "unseen", None)
        call.began = sum(before)
        self._accounts.take(call, ran)
        call.time = min(call.time, ran.until)
        if call.new or call.found:
            self._tell(call, ran, (), 0.0)
        return before != (ran.compiles, ran.hits)

    def _after(self, call: Call) -> None:
        seconds = time.perf_counter() - call.watch
        frame, call.frame = call.frame, None
        with self._flight.lock:
            call.shared = call.shared or self._accounts.in_flight()
            ran = self._counters.now()
            if call.entry != RUN_CACHED:  # which runs a graph by its hash and counts as neither
                self._accounts.take(call, ran)
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
        event = self._tell(call, ran, site, seconds)
        if event is not None and event.kind == "step" and call.pending is None:
            self._learn(event, frame, site)  # a close look knows better which graph it was
        if call.pending is not None:
            with self._counters.apart():
                waiting = self.guard.run("fsdp", self._buckets.waiting_ids) or {}
                self.guard.run("live", self._evidence.remember, waiting)

    def _learn(self, event: SyncEvent, frame: FrameType | None, site: tuple[Frame, ...]) -> None:
        """Later steps like this one may go the short way."""
        line = self._steady.line(frame, site)
        if (
            line is not None
            and event.outcome == "hit"
            and self._steady.open
            and self._accounts.habits.may_repeat()
        ):
            self._accounts.habits.repeats()
            self._steady.learn(line, event, self._dispatch.sinks)

    def _tell(
        self, call: Call, ran: Ran, site: tuple[Frame, ...], seconds: float
    ) -> SyncEvent | None:
        compiled = self._accounts.compiled(call, ran)
        if (missing := call.new - len(compiled.graphs)) > 0:
            why = self.guard.run("dump", self._evidence.why_none, missing)
            self._dispatch.note(NO_GRAPH, why or f"{missing} compiled without a stored graph")
        if not self._dispatch.sinks:
            if call.new:
                self._accounts.learn(compiled, ran)
            return None
        outcome = self._accounts.outcome(call, ran)
        if not site and compiled.graphs:
            site = self._sites.from_analysis(compiled.graphs[0].analysis)
        ident = self._accounts.identify(call, ran, (id(site), call.entry), compiled, outcome)
        event = SyncEvent(
            rank=self._rank(),
            time=call.time,
            seconds=seconds,
            kind=call.kind,
            entry=call.entry,
            ends_step=ends_step(call.kind, call.entry),
            outcome=outcome,
            compile_seconds=compiled.seconds,
            compiled=compiled.graphs,
            graphs=ident.graphs,
            graph_is_inferred=ident.is_inferred,
            graph_is_open=ident.is_open,
            fingerprint=ident.fingerprint,
            call_site=site,
            live_tensors=_live_tensors(call, compiled),
            asked=self._arming.is_asked,
            buckets=call.buckets,
        )
        self._arming.ended(event)
        self._dispatch.event(event)
        return event

    def _rank(self) -> int:
        local = self._flight.local
        rank: int | None = getattr(local, "rank", None)
        if rank is None:
            rank = local.rank = identity().rank
        return rank


def _live_tensors(call: Call, compiled: Compiled) -> tuple[LiveTensor, ...]:
    if compiled.graphs and compiled.graphs[0].live_tensors:
        return compiled.graphs[0].live_tensors
    return call.pending.tensors if call.pending is not None else ()
