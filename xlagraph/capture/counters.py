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
        self.horizon = inf
        """What ran later is left out of all answers; Unix time in seconds."""
        self._later_compiles: list[float] = []
        self._later_graphs = 0

    @contextmanager
    def as_of(self, moment: float) -> Iterator[None]:
        """What ran since ``moment`` (Unix time in seconds) is left out of all answers.

        That is known of as many graphs as torch_xla keeps samples of, 1024 by default.
        """
        self.horizon = moment
        self._later_compiles = [took for at, took in self._samples(COMPILE_TIME) if at >= moment]
        self._later_graphs = sum(at >= moment for at, _ in self._samples(GRAPH_SIZE))
        try:
            yield
        finally:
            self.horizon = inf
            self._later_compiles = []
            self._later_graphs = 0

    def compiles(self) -> int:
        """Graphs compiled by this process so far."""
        return (self.value(COMPILES) or 0) - len(self._later_compiles)

    def hits(self) -> int:
        """Graphs found in the compile cache so far."""
        later = max(self._later_graphs - len(self._later_compiles), 0)
        return (self.value(HITS) or 0) - later

    def tensors_made(self) -> int:
        """XLA tensors created so far: a cheap measure of what was traced since."""
        return self.value(TENSORS_MADE) or 0

    def loaded(self) -> int:
        """Graphs read from torch_xla's persistent cache so far; each counts as a hit too."""
        return self.value("PersistentCacheHit") or 0

    def compile_seconds(self) -> float:
        """Seconds that XLA compiled, all graphs together."""
        found = self._metric(COMPILE_TIME)
        return (float(found[1]) - sum(self._later_compiles)) / NANOSECONDS if found else 0.0

    def last_graph_size(self) -> int:
        """IR nodes of the graph synced last, or 0."""
        samples = self._samples(GRAPH_SIZE)
        last = len(samples) - self._later_graphs
        return int(samples[last - 1][1]) if last > 0 else 0

    def _samples(self, metric: str) -> Sequence[tuple[float, float]]:
        """The newest ones, oldest first: Unix time in seconds and value."""
        found = self._metric(metric)
        return found[2] if found else ()
