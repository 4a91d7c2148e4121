"""Ranges with gaps: runs of bytes at a fixed distance, such as a column of a matrix."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from xlagraph.streams.format import IRREGULAR

if TYPE_CHECKING:
    from collections.abc import Sequence


class Runs(NamedTuple):
    """`number` runs of `run` bytes, `stride` bytes apart (`stride` > `run`)."""

    start: int
    run: int
    stride: int
    number: int

    def meets(self, start: int, end: int) -> bool:
        """Whether a run has a byte in [start, end)."""
        first = max(0, (start - self.start - self.run) // self.stride + 1)
        return first < self.number and self.start + first * self.stride < end

    def meets_runs(self, other: Runs, start: int, end: int) -> bool:
        """Whether both have a byte in common in [start, end); linear in the shorter one."""
        if self.number > other.number:
            return other.meets_runs(self, start, end)
        for k in range(self.number):
            low = self.start + k * self.stride
            high = min(low + self.run, end)
            low = max(low, start)
            if low < high and other.meets(low, high):
                return True
        return False


class Box(NamedTuple):
    """An irregular range: the accessed bytes are some of [start, end)."""

    start: int
    end: int


Pattern = Runs | Box
"""Which bytes of its bounding box a range covers, where that is not all of them."""


def pattern_of(item: Sequence[int]) -> Pattern | None:
    """The pattern of a range of format v1; None where it covers its bounding box."""
    if len(item) == 3:
        return None
    _, start, extent, run, stride, count = item
    if extent <= run or 0 <= stride <= run:
        return None
    return Box(start, start + extent) if stride == IRREGULAR else Runs(start, run, stride, count)


def surely_meets(one: Pattern | None, other: Pattern | None, start: int, end: int) -> bool:
    """Whether two ranges have a byte in common in [start, end); False where that is not known."""
    if isinstance(one, Box) or isinstance(other, Box):
        return False
    return may_meet(one, other, start, end)


def may_meet(one: Pattern | None, other: Pattern | None, start: int, end: int) -> bool:
    """Whether two ranges could have a byte in common in [start, end); None covers all of it."""
    if isinstance(one, Runs) and isinstance(other, Runs):
        return one.meets_runs(other, start, end)
    return _touches(one, start, end) and _touches(other, start, end)


def _touches(pattern: Pattern | None, start: int, end: int) -> bool:
    if pattern is None:
        return True
    if isinstance(pattern, Box):
        return pattern.start < end and start < pattern.end
    return pattern.meets(start, end)


def bounds_of(pattern: Pattern) -> tuple[int, int]:
    """The bounding box of a pattern."""
    if isinstance(pattern, Box):
        return pattern.start, pattern.end
    return pattern.start, pattern.start + (pattern.number - 1) * pattern.stride + pattern.run


def shape_range(sizes: Sequence[int], strides: Sequence[int], item: int) -> tuple[int, ...]:
    """What a tensor covers from its first element on.

    ``(bytes,)`` where it has no gaps, else ``(extent, run, stride, count)`` in bytes; a stride
    of -1 stands for what is more irregular than runs at one distance.
    """
    run = 1
    gaps: list[tuple[int, int]] = []
    for stride, size in sorted(zip(strides, sizes, strict=True)):
        if size == 1 or stride == 0:
            continue
        if not gaps and stride <= run:
            run += (size - 1) * stride
        elif gaps and stride == gaps[-1][0] * gaps[-1][1]:
            gaps[-1] = gaps[-1][0], gaps[-1][1] * size
        else:
            gaps.append((stride, size))
    if not gaps:
        return (run * item,)
    extent = (run + sum(stride * (size - 1) for stride, size in gaps)) * item
    if len(gaps) == 1:
        stride, count = gaps[0]
        return extent, run * item, stride * item, count
    return extent, run * item, IRREGULAR, 1
