"""Spans of addresses that do not overlap: allocations, and tensors with names."""

from __future__ import annotations

from bisect import bisect_right
from typing import Generic, NamedTuple, Protocol, TypeVar


class Span(Protocol):
    """Something with an address and a size in bytes."""

    @property
    def start(self) -> int:
        """Its first byte."""

    @property
    def size(self) -> int:
        """Its number of bytes."""


class Name(NamedTuple):
    """The name of a tensor, as a log gives it."""

    start: int
    size: int
    text: str
    line: int


One = TypeVar("One", bound=Span)


class Spans(Generic[One]):
    """Finds the span that holds an address.

    Adding and taking out are single dictionary steps, since a log does both all the time;
    addresses are sorted when somebody asks for one within a span.
    """

    def __init__(self) -> None:
        self._by_start: dict[int, One] = {}
        self._starts: list[int] = []
        self._new: list[int] = []

    def add(self, one: One) -> None:
        """Adds a span, in place of one that began at the same address."""
        if one.start not in self._by_start:
            self._new.append(one.start)
        self._by_start[one.start] = one

    def pop(self, start: int) -> One | None:
        """Takes out the span that begins at an address, if there is one."""
        return self._by_start.pop(start, None)

    def at(self, start: int) -> One | None:
        """The span that begins at an address, if there is one."""
        return self._by_start.get(start)

    def holding(self, address: int) -> One | None:
        """The span with this address, if there is one."""
        found = self._by_start.get(address)
        if found is None:
            self._sort()
            place = bisect_right(self._starts, address) - 1
            found = self._by_start[self._starts[place]] if place >= 0 else None
        return found if found is not None and address < found.start + found.size else None

    def _sort(self) -> None:
        live = self._by_start
        if self._new or len(self._starts) != len(live):
            starts = [start for start in self._starts + self._new if start in live]
            starts.sort()  # two rising runs, mostly: linear
            self._starts, self._new = list(dict.fromkeys(starts)), []
