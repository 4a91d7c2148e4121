"""Counts the graphs that steps run after warm-up, for ``assert_stable``."""

from __future__ import annotations

from dataclasses import dataclass, field

from xlagraph.capture.events import SyncEvent
from xlagraph.run.records import BucketState


class UnstableError(AssertionError):
    """More graphs ran after warm-up than were allowed; the message names the cause."""


@dataclass(slots=True)
class StableWatch:
    """A sink that remembers which graphs ran after ``after_step`` steps."""

    max_graphs: int
    after_step: int
    steps: int = 0
    graphs: set[str] = field(default_factory=set)
    unknown_hits: int = 0
    late: list[tuple[int, str, float]] = field(default_factory=list)
    """Step, call site and seconds of each compile after warm-up."""
    name: str = "assert_stable"
    may_want_deep: bool = False

    def __post_init__(self) -> None:
        self.name = f"assert_stable ({id(self):x})"

    @property
    def count(self) -> int:
        """Distinct graphs that ran after warm-up, as far as they can be told apart."""
        return len(self.graphs) + (1 if self.unknown_hits and not self.graphs else 0)

    @property
    def failed(self) -> bool:
        """Whether there were too many."""
        return self.count > self.max_graphs

    def wants_deep(self) -> bool:
        """Arming after each compile is enough."""
        return False

    def on_sync(self, event: SyncEvent) -> None:
        """Count the graphs of a sync after warm-up."""
        if self.steps >= self.after_step:
            if event.outcome == "compile":
                self.graphs.update(event.graphs or (f"unread {len(self.late)}",))
                site = str(event.call_site[0]) if event.call_site else "an unknown place"
                self.late.append((self.steps, site, event.compile_seconds))
            elif event.outcome == "hit" and event.ends_step:
                self.graphs.update(event.graphs)
                self.unknown_hits += not event.graphs
        if event.ends_step:
            self.steps += 1

    def on_repeat(self, event: SyncEvent, time: float, seconds: float) -> None:  # noqa: ARG002
        """Counts as the event that it repeats."""
        self.on_sync(event)

    def on_flush(self, before: BucketState, emptied: bool) -> None:  # noqa: FBT001 - a fact
        """Not needed here."""

    def on_note(self, what: str, detail: str) -> None:
        """Not needed here."""

    def forget(self) -> None:
        """A forked child counts from nothing."""
        self.steps = 0
        self.graphs.clear()
        self.late.clear()

    def close(self) -> None:
        """Nothing is open."""

    def message(self, explanation: str) -> str:
        """What to tell, with the explanation of the compiles behind it."""
        seconds = sum(one[2] for one in self.late)
        head = (
            f"{self.count} graphs ran after step {self.after_step}, {self.max_graphs} allowed; "
            f"{len(self.late)} {'compile' if len(self.late) == 1 else 'compiles'} after warm-up "
            "took "
            f"{seconds:.1f} s:"
        )
        lines = [head]
        lines += [f"  step {step}, {site}: {took:.2f} s" for step, site, took in self.late[:5]]
        if len(self.late) > len(lines) - 1:
            lines.append(f"  and {len(self.late) - 5} more")
        return "\n".join([*lines, "", explanation.rstrip()]).rstrip()
