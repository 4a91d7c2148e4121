"""Time spent compiling: as it passed on the clock, and summed over the ranks that waited."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from xlagraph.message import duration

if TYPE_CHECKING:
    from collections.abc import Iterable

    from xlagraph.run.records import SyncRecord

Span = tuple[float, float]
"""Begin and end of a compile, in seconds on the clock (Unix time)."""
APART = 1.05
"""Where ranks spent more than so many times the time that passed, both are said."""


def span_of(sync: SyncRecord) -> Span:
    """Begin and end of the compile of a sync: what ran unseen was over when it was noticed."""
    begin = sync.time - sync.compile_seconds if sync.entry == "unseen" else sync.time
    return begin, begin + sync.compile_seconds


def spans_of(sync: SyncRecord) -> list[Span]:
    """The span of a sync's compile, divided among the graphs that it compiled."""
    begin, each = span_of(sync)[0], sync.compile_seconds / max(len(sync.graphs), 1)
    return [(begin + k * each, begin + (k + 1) * each) for k in range(len(sync.graphs))]


@dataclass(frozen=True, slots=True)
class Spent:
    """The compiles of one or several processes."""

    spans: tuple[Span, ...] = ()

    @property
    def rank_seconds(self) -> float:
        """The sum over all processes."""
        return sum(end - begin for begin, end in self.spans)

    @property
    def wall_seconds(self) -> float:
        """The time during which at least one process compiled; sorts the spans."""
        total, until = 0.0, float("-inf")
        for begin, end in sorted(self.spans):
            total += max(0.0, end - max(begin, until))
            until = max(until, end)
        return total

    @property
    def is_unknown(self) -> bool:
        """Something compiled, and no record says how long: no compile takes no time at all."""
        return bool(self.spans) and not self.rank_seconds

    @classmethod
    def of(cls, syncs: Iterable[SyncRecord]) -> Spent:
        """What these syncs took."""
        return cls(tuple(span_of(sync) for sync in syncs if sync.outcome == "compile"))

    def __str__(self) -> str:
        """``6.7 s``; of many ranks ``2.2 h of wall time (141.0 h over all ranks)``."""
        wall, ranks = self.wall_seconds, self.rank_seconds
        if self.is_unknown:
            return "time not recorded"
        if ranks <= wall * APART:
            return duration(wall)
        return f"{duration(wall)} of wall time ({duration(ranks)} over all ranks)"


def together(many: Iterable[Spent]) -> Spent:
    """All of them."""
    return Spent(tuple(span for one in many for span in one.spans))
