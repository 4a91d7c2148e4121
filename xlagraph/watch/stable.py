"""Counts the graphs that steps run after warm-up, for ``assert_stable``."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from xlagraph.capture.steps.events import Repeat, SyncEvent
from xlagraph.figures import count, duration
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
    sizes: set[tuple[int, ...]] = field(default_factory=set)
    """Fingerprints of the graphs that are known."""
    unknown: set[tuple[int, ...]] = field(default_factory=set)
    """Fingerprints of hits that ran a graph which cannot be named, but is none of those."""
    late: list[tuple[int, str, float]] = field(default_factory=list)
    """Step, call site and seconds of each compile after warm-up."""
    name: str = "assert_stable"
    may_want_deep: bool = False
    wants_lines: bool = False

    def __post_init__(self) -> None:
        self.name = f"assert_stable ({id(self):x})"

    @property
    def count(self) -> int:
        """Distinct graphs that ran after warm-up, as far as they can be told apart."""
        return len(self.graphs) + len(self.unknown)

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
                self.sizes.add(event.fingerprint)
                site = str(event.call_site[0]) if event.call_site else "an unknown place"
                self.late.append((self.steps, site, event.compile_seconds))
            elif event.outcome == "hit" and event.ends_step:
                self.graphs.update(event.graphs)
                if event.graphs:
                    self.sizes.add(event.fingerprint)
                elif event.fingerprint not in self.sizes:
                    self.unknown.add(event.fingerprint)
        if event.ends_step:
            self.steps += 1

    @property
    def cells(self) -> memoryview | None:
        """None: what is counted here is of no use when the process is gone."""
        return None

    def repeater(self, event: SyncEvent) -> Repeat:
        """A repeat counts as the event that it repeats."""

        def tell(starts: Sequence[int], _ends: Sequence[int]) -> None:
            for _ in starts:
                self.on_sync(event)

        return Repeat(self.steps, tell)

    def on_flush(self, before: BucketState, emptied: bool) -> None:  # noqa: FBT001 - a fact
        """Not needed here."""

    def on_note(self, what: str, detail: str) -> None:
        """Not needed here."""

    def forget(self) -> None:
        """A forked child counts from nothing."""
        self.steps = 0
        for found in (self.graphs, self.sizes, self.unknown, self.late):
            found.clear()

    def close(self, failure: str = "") -> None:
        """Nothing is open."""

    def message(self, explanation: str, *, is_warm_up: bool) -> str:
        """What to tell, with the explanation of the compiles behind it.

        `is_warm_up`: the explanation calls all of them warm-up.
        """
        seconds = sum(one[2] for one in self.late)
        lines = [
            f"{count(self.count, 'graph')} ran from step {self.after_step} on, {self.max_graphs} "
            f"allowed; {count(len(self.late), 'compile')} there took {duration(seconds)}"
            + (":" if self.late else ": the steps change between graphs compiled before it.")
        ]
        lines += [f"  step {step}, {site}: {duration(took)}" for step, site, took in self.late[:5]]
        if len(self.late) > 5:
            lines.append(f"  and {len(self.late) - 5} more")
        if is_warm_up and self.late:
            lines.append("They look like warm-up: if they are, allow for it with after_step.")
        return "\n".join([*lines, "", explanation.rstrip()]).rstrip()
