"""Pieces of graph that only one side has, as seen from the uses that both sides have."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from xlagraph.cause.places import knows_lines, where
from xlagraph.diff.match import output_values

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from xlagraph.cause.finding import Case
    from xlagraph.graph import Module

OUTPUT = -1
"""In place of an operand's position: the value is an output of the module."""


@dataclass(frozen=True, slots=True)
class Edge:
    """A use that both sides have, of values that are not each other's partners."""

    x: int
    y: int
    """The users, A's and B's."""
    place: int
    p: int
    q: int
    """What A uses and what B uses."""


def open_edges(case: Case) -> list[Edge]:
    """Operands and outputs that stand for another value on the other side."""
    a, b = case.diff.a, case.diff.b
    to_b = case.diff.match.to_b
    found = []
    for x, y, fields in case.open_changes():
        below_a, below_b = a.operands[x], b.operands[y]
        if "operands" in fields and len(below_a) == len(below_b):
            found += [
                Edge(x, y, k, p, q)
                for k, (p, q) in enumerate(zip(below_a, below_b, strict=True))
                if to_b[p] != q
            ]
    values_a, values_b = output_values(a), output_values(b)
    roots = (a.entry_computation.root, b.entry_computation.root)
    found += [Edge(*roots, OUTPUT, values_a[j], values_b[k]) for j, k in case.replaced_outputs()]
    return found


def pieces(case: Case, edges: Sequence[Edge]) -> list[list[Edge]]:
    """Edges grouped by what their unpaired values have in common: instructions, or a line.

    Where the modules know no lines all are one group: nothing tells their reasons apart.
    """
    if not edges:
        return []
    if not (knows_lines(case.diff.a) or knows_lines(case.diff.b)):
        return [list(edges)]
    groups = Groups(len(edges))
    for forward in (False, True):
        _connect(case, edges, groups, forward=forward)
    return [[edges[k] for k in members] for members in groups.members()]


def _connect(case: Case, edges: Sequence[Edge], groups: Groups, *, forward: bool) -> None:
    """Walks below the edges on one side and joins those that meet."""
    module = case.diff.a if forward else case.diff.b
    partners = case.diff.match.to_b if forward else case.diff.match.to_a
    claimed = case.claimed_a if forward else case.claimed_b
    reached: dict[int, int] = {}
    lines: dict[str, int] = {}
    for k, edge in enumerate(edges):
        stack = [edge.p if forward else edge.q]
        while stack:
            i = stack.pop()
            if partners[i] >= 0 or i in claimed:
                continue
            if i in reached:
                groups.join(reached[i], k)
                continue
            reached[i] = k
            stack.extend(module.operands[i])
            for line in where(module, [i]):
                groups.join(lines.setdefault(line, k), k)


def piece_of(
    module: Module, starts: Iterable[int], partners: Sequence[int], claimed: set[int]
) -> set[int]:
    """The unpaired instructions at and below `starts` that nothing has claimed."""
    stack = list(starts)
    found: set[int] = set()
    while stack:
        i = stack.pop()
        if i not in found and partners[i] < 0 and i not in claimed:
            found.add(i)
            stack.extend(module.operands[i])
    return found


class Groups:
    """Numbers from 0, joined to groups (union-find, Galler and Fischer 1964)."""

    def __init__(self, number: int):
        self._above = list(range(number))

    def _leader(self, k: int) -> int:
        above = self._above
        while above[k] != k:
            above[k] = above[above[k]]
            k = above[k]
        return k

    def join(self, j: int, k: int) -> None:
        """Puts the groups of two numbers together."""
        first, second = sorted((self._leader(j), self._leader(k)))
        self._above[second] = first

    def members(self) -> list[list[int]]:
        """The groups, each in rising order, by their first members."""
        found: dict[int, list[int]] = {}
        for k in range(len(self._above)):
            found.setdefault(self._leader(k), []).append(k)
        return list(found.values())
