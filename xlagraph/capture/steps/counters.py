"""torch_xla's own counters: whether something compiled, and how large the graph was.

A counter read costs 0.4 us; a metric read copies up to 1024 samples (60 us, and 3 ms where 10,000
operations were just traced: the allocator tidies up first), so metrics are read only where a
counter says that there is something new. (Measured on torch_xla 2.9.0.)
"""

# ruff: noqa: SLF001 - what capture reads of torch and torch_xla has private names

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from math import inf
from typing import Any

from xlagraph.run.codec import NANOSECONDS

COMPILES = "UncachedCompile"
HITS = "CachedCompile"
TENSORS_MADE = "CreateXlaTensor"
COMPILE_TIME = "CompileTime"
GRAPH_SIZE = "TensorsGraphSize"


@dataclass(slots=True)
class Seen:
    """What the counters said when the last hook ended."""

    compiles: int = 0
    hits: int = 0
    made: int = 0
    made_between: int = 0
    """Tensors made between the two last syncs."""


class Counters:
    """Reads ``_XLAC``'s counters; a counter that does not exist yet reads as 0."""

    def __init__(self, xlac: Any) -> None:
        self.seen = Seen()
        self.value = xlac._xla_counter_value
        self._metric = xlac._xla_metric_data

    def now(self) -> Ran:
        """All that this process has run so far."""
        return Ran(self, self.value(COMPILES) or 0, self.value(HITS) or 0)

    def before(self, moment: float) -> Ran:
        """What it had run by ``moment`` (Unix time in seconds).

        That is known of as many graphs as torch_xla keeps samples of, 1024 by default.
        """
        later_compiles = [took for at, took in self.samples(COMPILE_TIME) if at >= moment]
        later_graphs = sum(at >= moment for at, _ in self.samples(GRAPH_SIZE))
        now = self.now()
        return Ran(
            counters=self,
            compiles=now.compiles - len(later_compiles),
            hits=now.hits - max(later_graphs - len(later_compiles), 0),
            until=moment,
            later_graphs=later_graphs,
            later_compiling=sum(later_compiles),
        )

    def tensors_made(self) -> int:
        """XLA tensors created so far: a cheap measure of what was traced since."""
        return self.value(TENSORS_MADE) or 0

    def made_since(self) -> int:
        """Tensors made since the last hook, those of ``apart`` left out."""
        return self.tensors_made() - self.seen.made

    @contextmanager
    def apart(self) -> Iterator[None]:
        """What is made in here is capture's, not the program's: asking for views makes tensors."""
        before = self.tensors_made()
        try:
            yield
        finally:
            self.seen.made += self.tensors_made() - before

    def loaded(self) -> int:
        """Graphs read from torch_xla's persistent cache so far; each counts as a hit too."""
        return self.value("PersistentCacheHit") or 0

    def total(self, metric: str) -> float:
        """The sum of all samples, also of those that are no longer kept."""
        found = self._metric(metric)
        return float(found[1]) if found else 0.0

    def samples(self, metric: str) -> Sequence[tuple[float, float]]:
        """The newest ones, oldest first: Unix time in seconds and value."""
        found = self._metric(metric)
        return found[2] if found else ()


@dataclass(frozen=True, slots=True)
class Ran:
    """The graphs that a process had run at a moment; times and sizes are read when asked for."""

    counters: Counters
    compiles: int
    """Those that were compiled."""
    hits: int
    """Those that were found in the compile cache."""
    until: float = inf
    """The moment, Unix time in seconds; infinite when it was the present."""
    later_graphs: int = 0
    """Those that ran after the moment and had been counted when this was made."""
    later_compiling: float = 0.0
    """Nanoseconds that compiling them took."""

    @property
    def graphs(self) -> int:
        """All of them."""
        return self.compiles + self.hits

    def compile_seconds(self) -> float:
        """Seconds that XLA compiled, all graphs together."""
        return (self.counters.total(COMPILE_TIME) - self.later_compiling) / NANOSECONDS

    def last_graph_size(self) -> int:
        """IR nodes of the graph synced last, or 0."""
        samples = self.counters.samples(GRAPH_SIZE)
        last = len(samples) - self.later_graphs
        return int(samples[last - 1][1]) if last > 0 else 0
