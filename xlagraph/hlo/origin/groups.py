"""Sets of numbers that grow together (union-find; Tarjan 1975)."""

from __future__ import annotations


class Groups:
    """Numbers in groups; a number that was never joined is a group of its own."""

    def __init__(self) -> None:
        self._above: dict[int, int] = {}

    def find(self, number: int) -> int:
        """The number that stands for the group; nearly constant time."""
        above = self._above
        top = number
        while top in above:
            top = above[top]
        while number != top:
            above[number], number = top, above[number]
        return top

    def join(self, one: int, other: int) -> None:
        """Makes two groups one."""
        one, other = self.find(one), self.find(other)
        if one != other:
            self._above[max(one, other)] = min(one, other)
