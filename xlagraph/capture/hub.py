"""The captures of one process: hooks, accounting and dispatch, put together once.

Two captures at once share the hooks, the dump folder and the counters. The hooks see each sync
once, accounting finds out what ran during it, dispatch tells every sink.
"""

from __future__ import annotations

from typing import Any

from xlagraph.capture.accounting import Accounting
from xlagraph.capture.arming import Arming
from xlagraph.capture.dump import Dump
from xlagraph.capture.events import Sink
from xlagraph.capture.hooks import Hooks
from xlagraph.capture.parts import Parts


class Hub:
    """What begins and ends captures, and what they see by."""

    def __init__(self, xlac: Any, dump: Dump | None, arm_steps: int) -> None:
        parts = self._parts = Parts.of(xlac, dump)
        self._xlac = xlac
        self._accounts = Accounting(parts)
        self.arming = Arming(parts, arm_steps)
        self.hooks = Hooks(parts, self.arming, self._accounts)
        self.guard = parts.dispatch.guard
        self.sinks: list[Sink] = parts.dispatch.sinks
        self.counters = parts.counters
        self.buckets = parts.buckets
        self.evidence = parts.evidence

    def install(self) -> None:
        """Put the hooks in."""
        self.hooks.install(self._xlac)

    def uninstall(self) -> None:
        """Take the hooks out again."""
        self.buckets.uninstall()
        self.hooks.uninstall()

    def begin(self) -> None:
        """A sink joins: arm, and forget what happened while nobody listened."""
        self._accounts.skip()
        self.arming.arm()

    def settle(self) -> None:
        """Tell of what ran since the last hook: a sink is about to leave."""
        self._parts.steady.let_go()
        if not self._accounts.in_flight():
            self.hooks.unseen(self.counters.now())

    def after_fork(self) -> None:
        """In a forked child: locks and threads of the parent are gone, its dump is not ours."""
        self._parts.flight.after_fork()
        self._parts.steady.abandon()
        self.evidence.dump = None
