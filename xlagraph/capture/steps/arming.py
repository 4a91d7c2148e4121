"""When to look closely: live tensors and bucket flushes cost too much for every step."""

from __future__ import annotations

import threading

from xlagraph.capture.steps.events import SyncEvent
from xlagraph.capture.steps.parts import Parts

_KINDS = 64
"""A program whose steps make so many different numbers of tensors has no usual ones."""
FURTHER = 3
"""Times as many steps are looked at after a compile where only that tells which graph a hit ran."""
_SPENT = (
    "searching for live tensors has taken its share of the time beside compiling: from here "
    "some compiles have no tensor names; XLAGRAPH=2 looks at every step"
)


class Arming:
    """Armed at the start, for some steps after each compile, and where a sink asks for it.

    While armed no step goes the short way of ``xlagraph.capture.steps.steady``.
    """

    def __init__(self, parts: Parts, steps: int) -> None:
        self.steps = steps
        """For how many steps a compile arms."""
        self.is_close = True
        """Whether the step now running may be looked at."""
        self._dispatch = parts.dispatch
        self._steady = parts.steady
        self._buckets = parts.buckets
        self._evidence = parts.evidence
        self._armed = steps
        self._further = 0
        self._asked = 0
        self._counters = parts.counters
        self._usual: set[int] = set()
        """How many tensors a step has made, of all steps so far."""
        self._spent_noted = False
        self._threads: set[int] = set()

    @property
    def is_asked(self) -> bool:
        """Whether a signal asked for a look at this step, whatever it costs."""
        return self._asked > 0

    def arm(self) -> None:
        """Look closely at the next steps."""
        self._armed = self.steps
        self.is_close = self._buckets.armed = True
        self._steady.allow(may=False)

    def ask(self) -> None:
        """Look closely at the next steps whatever it costs; safe in a signal's handler."""
        self._asked = max(self.steps, 1)
        self.arm()

    def is_unusual(self) -> bool:
        """Whether this step has made another number of tensors than any before: it may compile."""
        return len(self._usual) < _KINDS and self._counters.made_since() not in self._usual

    def looks_closely(self) -> bool:
        """Whether to search for live tensors: asked for, or armed and worth its time."""
        if not self._dispatch.sinks:
            return False
        if self.is_deep() or self._evidence.can_afford():
            return True
        if not self._spent_noted:
            self._spent_noted = True
            self._dispatch.note("looked away", _SPENT)
        return False

    def is_deep(self) -> bool:
        """Whether the live tensors of the step now running are recorded."""
        return self.is_asked or self._wants_deep()

    def _wants_deep(self) -> bool:
        for sink in self._dispatch.sinks:  # noqa: SIM110 - any() takes a microsecond at every step
            if sink.wants_deep():
                return True
        return False

    def ended(self, event: SyncEvent) -> None:
        """A sync has ended: decide how the next ones are looked at."""
        if event.outcome == "compile":
            self._armed = self.steps
            self._further = FURTHER * self.steps
            self._steady.forget()
        elif event.ends_step and self._armed:
            if event.graph_is_open and self._further:
                self._further -= 1
            else:
                self._armed -= 1
        if event.ends_step:
            self._usual.add(self._counters.seen.made_between)
            self._asked -= self._asked > 0
            self._threads.add(threading.get_ident())
        self.is_close = self._buckets.armed = self._armed + self._asked > 0 or self._wants_deep()
        self._steady.allow(
            may=not self.is_close
            and len(self._threads) <= 1
            and not any(sink.may_want_deep for sink in self._dispatch.sinks)
        )
