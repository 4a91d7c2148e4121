"""Which earlier module a new one is most like: by opcode histograms, in linear time."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from xlagraph.graph import Module

    Histogram = Counter[tuple[str, str]]
    """How often each opcode stands with each shape."""

MAX_CANDIDATES = 64
"""Latest earlier modules that are compared; a run with more graphs is bounded by it."""

MOSTLY = 0.9
MIN_SHARED = 6
"""A module is contained in another if it shares this part, and this many instructions."""


def opcode_histogram(module: Module) -> Histogram:
    """The histogram of a module; linear in instructions."""
    return Counter(zip(module.opcodes, module.shapes, strict=True))


def likeness(a: Histogram, b: Histogram) -> float:
    """Shared part of two histograms, 0 to 1 (Jaccard index of multisets)."""
    shared = (a & b).total()
    every = a.total() + b.total() - shared
    return shared / every if every else 1.0


def nearest(new: Histogram, earlier: Sequence[Histogram]) -> tuple[int, float] | None:
    """Position of the most alike earlier histogram and the likeness; the latest on a tie.

    One with the same opcodes is the same program with other sizes, and goes first.
    """
    found: tuple[tuple[bool, float], int] | None = None
    opcodes = _opcodes(new)
    start = max(0, len(earlier) - MAX_CANDIDATES)
    for k in range(start, len(earlier)):
        score = _opcodes(earlier[k]) == opcodes, likeness(new, earlier[k])
        if found is None or score >= found[0]:
            found = score, k
    return (found[1], found[0][1]) if found else None


def _opcodes(histogram: Histogram) -> Counter[str]:
    counts: Counter[str] = Counter()
    for (opcode, _), number in histogram.items():
        counts[opcode] += number
    return counts


def container(new: Histogram, earlier: Sequence[Histogram]) -> int | None:
    """Position of the smallest earlier histogram that holds nearly all of a new one."""
    found = None
    start = max(0, len(earlier) - MAX_CANDIDATES)
    for k in range(start, len(earlier)):
        shared = (new & earlier[k]).total()
        is_smaller = found is None or earlier[k].total() < earlier[found].total()
        if shared >= MOSTLY * new.total() and shared >= MIN_SHARED and is_smaller:
            found = k
    return found
