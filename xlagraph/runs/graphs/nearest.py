"""Which earlier graph a new one is most like, by how often each opcode stands with each shape.

A few of the earlier graphs are compared: the latest, and those found in an index of counts. So the
work for a graph does not grow with the number of graphs before it.
"""

from __future__ import annotations

from collections import Counter, defaultdict, deque
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from xlagraph.runs.graphs.sketch import Histogram

LATEST = 64
"""Latest graphs that are compared."""
VOTED = 16
"""Earlier ones that are compared besides: those that share most counts with the new one."""
KEPT = 8
"""The latest graphs that the index keeps for one count. Of many graphs alike in it these do; an
older one that is nearer still shares rarer counts."""

MOSTLY = 0.9
MIN_SHARED = 6
"""A module is contained in another if it shares this part, and this many instructions."""


def likeness(a: Histogram, b: Histogram) -> float:
    """Shared part of two histograms, 0 to 1 (Jaccard index of multisets)."""
    shared = (a & b).total()
    every = a.total() + b.total() - shared
    return shared / every if every else 1.0


def opcodes_of(histogram: Histogram) -> Counter[str]:
    """How often each opcode stands, whatever its shape."""
    counts: Counter[str] = Counter()
    for (opcode, _), number in histogram.items():
        counts[opcode] += number
    return counts


class Earlier:
    """The histograms of the graphs so far, by their numbers from 0 on."""

    def __init__(self) -> None:
        self._histograms: list[Histogram] = []
        self._latest: deque[int] = deque(maxlen=LATEST)
        self._by_count: defaultdict[tuple[tuple[str, str], int], deque[int]] = defaultdict(
            lambda: deque(maxlen=KEPT)
        )

    def add(self, histogram: Histogram) -> None:
        """Takes in the next graph, which is found from then on."""
        number = len(self._histograms)
        self._histograms.append(histogram)
        self._latest.append(number)
        for count in histogram.items():
            self._by_count[count].append(number)

    def candidates(self, new: Histogram) -> list[int]:
        """The earlier graphs worth comparing, ascending; a bounded number."""
        votes = Counter(k for count in new.items() for k in self._by_count.get(count, ()))
        most = sorted(votes, key=lambda k: (-votes[k], -k))[:VOTED]
        return sorted({*self._latest, *most})

    def nearest(self, new: Histogram) -> tuple[int, float] | None:
        """The most alike earlier graph and the likeness; the latest on a tie.

        One with the same opcodes is the same program with other sizes, and goes first.
        """
        found: tuple[tuple[bool, float], int] | None = None
        opcodes = opcodes_of(new)
        for k in self.candidates(new):
            earlier = self._histograms[k]
            score = opcodes_of(earlier) == opcodes, likeness(new, earlier)
            if found is None or score >= found[0]:
                found = score, k
        return (found[1], found[0][1]) if found else None

    def container(self, new: Histogram) -> int | None:
        """The smallest earlier graph that holds nearly all of a new one."""
        found, size = None, 0
        for k in self.candidates(new):
            shared = (new & self._histograms[k]).total()
            total = self._histograms[k].total()
            is_smaller = found is None or total < size
            if shared >= MOSTLY * new.total() and shared >= MIN_SHARED and is_smaller:
                found, size = k, total
        return found
