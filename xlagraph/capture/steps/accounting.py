"""Takes each graph that ran, once, for the call during which it ran.

The counters of torch_xla are shared by all threads, and what runs through C++ alone moves them
too: a call is given what has run since the last one was, as far as that can be its own.
"""

from __future__ import annotations

from typing import NamedTuple

from xlagraph.capture.steps.calls import Call
from xlagraph.capture.steps.counters import Ran
from xlagraph.capture.steps.events import CompiledGraph
from xlagraph.capture.steps.habits import Habits
from xlagraph.capture.steps.parts import Parts
from xlagraph.capture.steps.running import DynamoGraphs, RunningGraphs, SiteKey
from xlagraph.run.records import PERSISTENT_CACHE

RUN_CACHED = "run_cached"
_LOADED = (
    "graphs came from torch_xla's persistent cache: they count as hits, and as they were not "
    "compiled here, their modules are not known"
)
_NOWHERE: SiteKey = (0, "")


class Compiled(NamedTuple):
    """What compiled during a call."""

    seconds: float
    graphs: tuple[CompiledGraph, ...]

    @property
    def digests(self) -> tuple[str, ...]:
        """The modules' names."""
        return tuple(one.digest for one in self.graphs)


class Identity(NamedTuple):
    """Which graph ran during a call."""

    graphs: tuple[str, ...] = ()
    """Digests, as far as known."""
    fingerprint: tuple[int, ...] = ()
    is_inferred: bool = False
    """The digests are only concluded."""
    is_open: bool = False
    """Without a close look several graphs could have run."""


class Accounting:
    """What this process has run, and what of it has been told."""

    def __init__(self, parts: Parts) -> None:
        self.dynamo = DynamoGraphs()
        self.habits = Habits()
        self._running = RunningGraphs()
        self._unsure_until = 0
        self._counters = parts.counters
        self._flight = parts.flight
        self._steady = parts.steady
        self._evidence = parts.evidence
        self._dispatch = parts.dispatch

    def skip(self) -> None:
        """Forget what ran while nobody listened."""
        seen, ran = self._counters.seen, self._counters.now()
        if ran.compiles != seen.compiles:
            self._running.knows_all = False
        seen.compiles, seen.hits = ran.compiles, ran.hits

    def in_flight(self) -> bool:
        """Whether other threads' hooked calls have begun and not ended."""
        return self._flight.others() or self._steady.is_stepping

    def take(self, call: Call, ran: Ran) -> None:
        """Take for ``call`` what had run and is not told of yet."""
        seen = self._counters.seen
        call.new, call.found = max(ran.compiles - seen.compiles, 0), max(ran.hits - seen.hits, 0)
        seen.compiles, seen.hits = ran.compiles, ran.hits
        if call.shared and not call.new and call.found > 1:
            # A sync runs one graph: the others are those of the calls that are still in flight.
            seen.hits -= call.found - 1
            call.found = 1

    def compiled(self, call: Call, ran: Ran) -> Compiled:
        """The graphs that compiled for ``call``."""
        if not call.new:
            return Compiled(0.0, ())
        with self._flight.lock:
            seconds = self._evidence.compile_seconds(ran)
            take = self._evidence.take
            graphs = self._dispatch.guard.run("dump", take, call.pending, call.new, ran) or ()
            if call.shared and self._evidence.gives_modules and self.in_flight():
                self._leave(call, call.new - len(graphs))
        return Compiled(seconds, graphs)

    def _leave(self, call: Call, missing: int) -> None:
        """A compile counts as it begins: one without a module yet is of a call in flight."""
        call.new -= missing
        self._counters.seen.compiles -= missing

    def learn(self, compiled: Compiled, ran: Ran) -> None:
        """Nobody is told of these, but a later hit may run one of them."""
        self._count_made()
        self.habits.none()
        size = ran.last_graph_size()
        self._running.compiled(compiled.digests, _NOWHERE, size, "", is_whole=False)

    def outcome(self, call: Call, ran: Ran) -> str:
        """As in ``SyncRecord``."""
        if call.found and self._running.knows_all and self._counters.loaded():
            self._running.knows_all = False
            self._dispatch.note(PERSISTENT_CACHE, _LOADED)
        if call.entry == RUN_CACHED:
            return "hit"
        if self._is_unsure(call, ran):
            self._unsure_until = ran.graphs
            self._running.knows_all = self._running.knows_all and not call.new
            return "unknown"
        return "compile" if call.new else "hit" if call.found else "empty"

    def _is_unsure(self, call: Call, ran: Ran) -> bool:
        """Whether several graphs ran during the call, and other calls may have run some.

        Or fewer are left for it than ran, since another call that ended before it took several,
        of which one may have been this one's.
        """
        ran_meanwhile, taken = ran.graphs - call.began, call.new + call.found
        if ran_meanwhile > taken and call.began < self._unsure_until:
            return True
        return ran_meanwhile > 1 and (call.shared or ran_meanwhile != taken)

    def identify(
        self, call: Call, ran: Ran, site: SiteKey, compiled: Compiled, outcome: str
    ) -> Identity:
        """Which graph ran during ``call``, at ``site``; learned for later hits there."""
        if call.entry == RUN_CACHED:
            return Identity(self.dynamo.of(call.graph_hash))
        if call.entry == "warm_up":
            self.dynamo.warmed(compiled.digests)
        made = self._count_made()
        graph_hash = call.pending.key.graph if call.pending is not None else ""
        if outcome == "hit":
            read, is_first = ran.last_graph_size, call.is_first
            size = self.habits.size(site, made, read, is_first=is_first)
            self._running.hit(site, size, graph_hash)
            graphs = self._running.of(site, size, graph_hash)
            is_open = not self._running.of(site, size, "")
            return Identity(graphs, (size,), is_inferred=bool(graphs), is_open=is_open)
        self.habits.none()
        if outcome != "compile":
            return Identity()
        size = ran.last_graph_size()
        is_whole = all(one.tensors_agree for one in compiled.graphs)
        self._running.compiled(compiled.digests, site, size, graph_hash, is_whole=is_whole)
        return Identity(compiled.digests, (size,))

    def _count_made(self) -> int:
        """Tensors made since the last sync, up to the one that has just ended."""
        seen = self._counters.seen
        seen.made_between = self._counters.made_since()
        seen.made += seen.made_between
        return seen.made_between
