"""Corresponding places of two sequences, without the cost of a full longest common subsequence.

Equal ends first, then cuts at what occurs once on each side (patience diff, Bram Cohen).
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from itertools import pairwise
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Hashable, Sequence

MAX_CUTS = 16
"""How often a piece may be cut again; bounds the work to this many passes."""


def aligned(a: Sequence[Hashable], b: Sequence[Hashable]) -> list[tuple[int, int]]:
    """Places of `a` and `b` that hold equal items and correspond, rising on both sides."""
    found: list[tuple[int, int]] = []
    pieces = [(0, len(a), 0, len(b), MAX_CUTS)]
    while pieces:
        i, stop_a, j, stop_b, cuts = pieces.pop()
        while i < stop_a and j < stop_b and a[i] == b[j]:
            found.append((i, j))
            i, j = i + 1, j + 1
        while i < stop_a and j < stop_b and a[stop_a - 1] == b[stop_b - 1]:
            stop_a, stop_b = stop_a - 1, stop_b - 1
            found.append((stop_a, stop_b))
        anchors = _anchors(a, b, range(i, stop_a), range(j, stop_b)) if cuts else []
        if anchors:
            found += anchors
            ends = [(i - 1, j - 1), *anchors, (stop_a, stop_b)]
            pieces += [(x + 1, u, y + 1, v, cuts - 1) for (x, y), (u, v) in pairwise(ends)]
        elif stop_a - i == stop_b - j:
            both = zip(range(i, stop_a), range(j, stop_b), strict=True)
            found += [(x, y) for x, y in both if a[x] == b[y]]
    return sorted(found)


def _anchors(
    a: Sequence[Hashable], b: Sequence[Hashable], places_a: range, places_b: range
) -> list[tuple[int, int]]:
    """Places of items that occur once in each range, as far as they stand in one order."""
    count_a = Counter(a[x] for x in places_a)
    count_b = Counter(b[y] for y in places_b)
    where_b = {b[y]: y for y in places_b}
    pairs = [(x, where_b[a[x]]) for x in places_a if count_a[a[x]] == 1 == count_b.get(a[x])]
    return [pairs[k] for k in longest_rise([y for _, y in pairs])]


def filled(pairs: Sequence[tuple[int, int]], size_a: int, size_b: int) -> list[tuple[int, int]]:
    """The places between aligned ones, where both sides have equally many."""
    ends = [(-1, -1), *pairs, (size_a, size_b)]
    return [
        both
        for (x, y), (u, v) in pairwise(ends)
        if u - x == v - y
        for both in zip(range(x + 1, u), range(y + 1, v), strict=True)
    ]


def longest_rise(numbers: Sequence[int]) -> list[int]:
    """Indices of a longest strictly rising subsequence (Schensted 1961), n log n."""
    tails: list[int] = []
    last: list[int] = []
    before: list[int] = []
    for k, number in enumerate(numbers):
        at = bisect_left(tails, number)
        before.append(last[at - 1] if at else -1)
        tails[at : at + 1] = [number]
        last[at : at + 1] = [k]
    found = []
    k = last[-1] if last else -1
    while k >= 0:
        found.append(k)
        k = before[k]
    return found[::-1]
