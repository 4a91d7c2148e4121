"""The captures of one process: hooks, accounting and dispatch, put together once.

Two captures at once share the hooks, the dump folder and the counters. The hooks see each sync
once, accounting finds out what ran during it, dispatch tells every sink.
"""

from __future__ import annotations

from typing import Any

from xlagraph.capture.places.lines import Lines
from xlagraph.capture.steps.accounting import Accounting
from xlagraph.capture.steps.arming import Arming
from xlagraph.capture.steps.events import Sink
from xlagraph.capture.steps.hooks import Hooks
from xlagraph.capture.steps.parts import Parts
from xlagraph.capture.xla_dump.dump import Dump

_LOST = (
    "{lost} calls were stopped while they were recorded, by Ctrl-C: they are missing here, or told "
    "as unseen"
)


class Hub:
    """What begins and ends captures, and what they see by."""

    def __init__(self, xlac: Any, dump: Dump | None, arm_steps: int) -> None:
        parts = self._parts = Parts.of(xlac, dump)
        self._xlac = xlac
        self._accounts = Accounting(parts)
        self._lines = Lines()
        self.arming = Arming(parts, arm_steps)
        self.hooks = Hooks(parts, self.arming, self._accounts)
        self.guard = parts.dispatch.guard
        self.sinks: list[Sink] = parts.dispatch.sinks
        self.counters = parts.counters
        self.buckets = parts.buckets
        self.evidence = parts.evidence
        self.flight = parts.flight

    def install(self) -> None:
        """Put the hooks in."""
        self.hooks.install(self._xlac)

    def uninstall(self) -> None:
        """Take the hooks out again."""
        self.buckets.uninstall()
        self.hooks.uninstall()

    def join(self, sink: Sink) -> None:
        """A sink joins: arm, and forget what happened while nobody listened."""
        self._accounts.skip()
        self.arming.arm()
        self.sinks.append(sink)
        self.guard.run("lines", self._switch_lines)

    def leave(self, sink: Sink) -> None:
        """A sink leaves, which has been told of everything."""
        self.sinks.remove(sink)
        self.guard.run("lines", self._switch_lines)

    def _switch_lines(self) -> None:
        self._lines.switch(on=any(sink.wants_lines for sink in self.sinks))

    def settle(self) -> None:
        """Tell of what ran since the last hook: a sink is about to leave."""
        self._parts.steady.let_go()
        if not self._accounts.in_flight():
            self.hooks.unseen(self.counters.now())
        if lost := self.flight.lost + self._parts.steady.lost:
            self.flight.lost = self._parts.steady.lost = 0
            self._parts.dispatch.note("interrupted", _LOST.format(lost=lost))

    def after_fork(self) -> None:
        """In a forked child: locks and threads of the parent are gone, its dump is not ours.

        Raises:
            OSError: the parent's dump is gone.
        """
        self.flight.after_fork()
        self._parts.steady.abandon()
        if self.evidence.dump is not None:
            self.evidence.dump.after_fork()
