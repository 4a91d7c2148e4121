"""The one place where hooks meet: sees each sync once and tells every sink.

Two captures at once share the hooks, the dump folder and the counters. A stable step costs
two counter reads on each side of the call, a remembered call site, and the sinks' own work.
"""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any

from xlagraph.capture.counters import Counters
from xlagraph.capture.dump import Analysis, Dump
from xlagraph.capture.events import CompiledGraph, Sink, SyncEvent
from xlagraph.capture.fsdp import Buckets
from xlagraph.capture.names import Names
from xlagraph.capture.patches import Guard, Patches
from xlagraph.capture.running import RunningGraphs
from xlagraph.capture.sites import SiteReader
from xlagraph.run.records import BucketState, Frame
from xlagraph.run.writer import digest_text


class _Call:
    """One hooked call, from its start to its end."""

    __slots__ = ("buckets", "compiles", "entry", "frame", "hits", "kind", "shared", "time", "watch")

    def __init__(self, kind: str, entry: str, frame: FrameType) -> None:
        self.kind = kind
        self.entry = entry
        self.frame: FrameType | None = frame
        self.time = time.time()
        self.watch = time.perf_counter()
        self.compiles = 0
        self.hits = 0
        self.buckets: tuple[BucketState, ...] = ()
        self.shared = False


class Hub:
    """Hooks and what they share, for one process."""

    def __init__(self, dump: Dump | None, arm_steps: int) -> None:
        self.dump = dump
        self.arm_steps = arm_steps
        self.sinks: list[Sink] = []
        self.guard = Guard(self._tell)
        self.names = Names()
        self.buckets = Buckets(self.names, self.guard, self._flushed)
        self._patches = Patches()
        self._sites = SiteReader()
        self._running = RunningGraphs()
        self._local = threading.local()
        self._lock = threading.RLock()
        self._inside = 0
        self._armed = arm_steps
        self._counters: Counters | None = None
        self._compiles = 0
        self._hits = 0
        self._compile_seconds = 0.0

    def install(self, xlac: Any) -> None:
        """Patch ``_XLAC``'s ways into a sync."""
        self._counters = Counters(xlac)
        self._compiles, self._hits = self._counters.compiles(), self._counters.hits()
        self._compile_seconds = self._counters.compile_seconds()
        for name, kind, entry in (
            ("_xla_step_marker", "step", "sync"),
            ("_xla_sync_multi", "other", "sync_multi"),
            ("_xla_sync_live_tensors", "other", "sync_live"),
            ("_xla_warm_up_cache", "dynamo", "warm_up"),
            ("_run_cached_graph", "dynamo", "run_cached"),
        ):
            self._patches.replace(xlac, name, self.wrapper(kind, entry))

    def uninstall(self) -> None:
        """Take the hooks out again."""
        self.buckets.uninstall()
        self._patches.undo()

    def wrapper(self, kind: str, entry: str) -> Callable[[Any], Any]:
        """Makes the hooked form of a function that may sync."""

        def make(original: Callable[..., Any]) -> Callable[..., Any]:
            def hooked(*arguments: Any, **options: Any) -> Any:
                call = self.guard.run("sync", self._before, kind, entry)
                if call is None:
                    return original(*arguments, **options)
                try:
                    return original(*arguments, **options)
                finally:
                    self.guard.run("sync", self._after, call)
                    self._left()

            return hooked

        return make

    def _before(self, kind: str, entry: str) -> _Call | None:
        if not self.sinks or getattr(self._local, "busy", False):
            return None
        counters = self._counters
        assert counters is not None
        # Frames: _before, Guard.run, hooked, then the caller.
        call = _Call(kind, entry, sys._getframe(3))  # noqa: SLF001 - no public way
        compiles, hits = counters.compiles(), counters.hits()
        if (compiles != self._compiles or hits != self._hits) and not self._inside:
            self._unseen(compiles, hits)
        call.compiles, call.hits = compiles, hits
        call.buckets = self.guard.run("fsdp", self.buckets.waiting) or ()
        self._local.busy = True
        with self._lock:
            call.shared = self._inside > 0
            self._inside += 1
        return call

    def _left(self) -> None:
        self._local.busy = False
        with self._lock:
            self._inside -= 1

    def _after(self, call: _Call) -> None:
        seconds = time.perf_counter() - call.watch
        counters = self._counters
        assert counters is not None
        compiles, hits = counters.compiles(), counters.hits()
        site, entry = self._sites.read(call.frame)
        call.frame = None
        new, found = compiles - call.compiles, hits - call.hits
        self._compiles, self._hits = compiles, hits
        if call.kind == "value" and not new and not found:
            return  # the value was there already
        kind = call.kind
        if kind == "step" and entry in ("compile", "compile_begin"):
            kind = "compile"
        self._emit(call, kind, entry or call.entry, site, new, found, seconds)

    def _emit(  # noqa: PLR0913
        self,
        call: _Call,
        kind: str,
        entry: str,
        site: tuple[Frame, ...],
        new: int,
        found: int,
        seconds: float,
    ) -> None:
        counters = self._counters
        assert counters is not None
        compiled: tuple[CompiledGraph, ...] = ()
        compile_seconds = 0.0
        outcome = "compile" if new else "hit" if found else "empty"
        if new:
            with self._lock:
                total = counters.compile_seconds()
                compile_seconds = max(total - self._compile_seconds, 0.0)
                self._compile_seconds = total
                compiled = self.guard.run("dump", self._take) or ()
        ran, fingerprint = self._running.of(
            (id(site), entry), tuple(graph.digest for graph in compiled), outcome, counters
        )
        ends_step = kind == "step" or (kind == "compile" and entry == "compile")
        event = SyncEvent(
            rank=self._rank(),
            time=call.time,
            seconds=seconds,
            kind=kind,
            entry=entry,
            ends_step=ends_step,
            outcome=outcome,
            compile_seconds=compile_seconds,
            compiled=compiled,
            ran=ran,
            is_inferred=bool(ran) and outcome == "hit",
            fingerprint=fingerprint,
            call_site=site,
            live_tensors=(),
            buckets=call.buckets,
        )
        self._arm(new, ends_step)
        for sink in list(self.sinks):
            self.guard.run(f"sink {id(sink)}", sink.on_sync, event)

    def _arm(self, new: int, ends_step: bool) -> None:  # noqa: FBT001 - a fact of the sync
        if new:
            self._armed = self.arm_steps
        elif ends_step and self._armed:
            self._armed -= 1
        self.buckets.armed = self._armed > 0

    def _unseen(self, compiles: int, hits: int) -> None:
        """Something ran between two hooks: through C++ alone, such as ``.to("cpu")``."""
        call = _Call("value", "unseen", sys._getframe())  # noqa: SLF001 - no public way
        call.frame = None
        new, found = max(compiles - self._compiles, 0), max(hits - self._hits, 0)
        self._compiles, self._hits = compiles, hits
        if new or found:
            self._emit(call, "value", "unseen", (), new, found, 0.0)

    def _take(self) -> tuple[CompiledGraph, ...]:
        if self.dump is None:
            return ()
        modules = self.dump.take_modules()
        analyses: list[Analysis | None] = list(self.dump.take_analyses())
        # torch_xla compiles one module an analysis; other modules (transfers) have none.
        analyses += [None] * (len(modules) - len(analyses))
        return tuple(
            CompiledGraph(
                digest=digest_text(module.text),
                module=module.name,
                text=module.text,
                analysis=analysis,
                parameters=(),
                outputs=(),
            )
            for module, analysis in zip(modules, analyses, strict=False)
        )

    def _rank(self) -> int:
        rank: int | None = getattr(self._local, "rank", None)
        if rank is None:
            import torch_xla.runtime

            rank = self._local.rank = int(torch_xla.runtime.global_ordinal())
        return rank

    def _flushed(self, before: BucketState, emptied: bool) -> None:  # noqa: FBT001 - a fact
        for sink in list(self.sinks):
            self.guard.run(f"sink {id(sink)}", sink.on_flush, before, emptied)

    def _tell(self, what: str, detail: str) -> None:
        for sink in list(self.sinks):
            sink.on_note(f"hook {what!r} is off", detail)

    @contextmanager
    def quiet(self) -> Iterator[None]:
        """While open, this thread's syncs are capture's own and are not recorded."""
        before = getattr(self._local, "busy", False)
        self._local.busy = True
        try:
            yield
        finally:
            self._local.busy = before
