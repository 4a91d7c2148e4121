"""Pieces of graph that only one side has, as seen from the uses that both sides have."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from xlagraph.cause.slices import called_only_by
from xlagraph.cause.sources import knows_lines, where

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Sequence

    from xlagraph.cause.case import Case, SideView
    from xlagraph.graph import Module
    from xlagraph.message import SourceLine

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

    def value(self, view: SideView) -> int:
        """What one side uses there."""
        return self.p if view.is_a else self.q

    def user(self, view: SideView) -> int:
        """The user on one side."""
        return self.x if view.is_a else self.y


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
    values_a, values_b = a.outputs, b.outputs
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
    for view in (case.b, case.a):
        _connect(view, edges, groups)
    return [[edges[k] for k in members] for members in groups.members()]


def _connect(view: SideView, edges: Sequence[Edge], groups: Groups) -> None:
    """Walks below the edges on one side and joins those that meet."""
    module, partners = view.module, view.partners
    reached: dict[int, int] = {}
    lines: dict[SourceLine, int] = {}
    for k, edge in enumerate(edges):
        stack = [edge.value(view)]
        while stack:
            i = stack.pop()
            if partners[i] >= 0 or i in view.claimed:
                continue
            if i in reached:
                groups.join(reached[i], k)
                continue
            reached[i] = k
            stack.extend(module.operands[i])
            for line in where(module, [i]):
                groups.join(lines.setdefault(line.forward, k), k)


def piece_of(view: SideView, starts: Iterable[int], *, with_claimed: bool = False) -> set[int]:
    """The unpaired instructions at and below `starts`, without what findings have claimed."""
    claimed = set[int]() if with_claimed else view.claimed
    stack = list(starts)
    found: set[int] = set()
    while stack:
        i = stack.pop()
        if i not in found and view.partners[i] < 0 and i not in claimed:
            found.add(i)
            stack.extend(view.module.operands[i])
    return found


def connected(module: Module, lone: Collection[int], seeds: Iterable[int]) -> set[int]:
    """What of one side's own instructions hangs together with some of them."""
    own = frozenset(lone)
    found = own.intersection(seeds)
    stack = list(found)
    while stack:
        i = stack.pop()
        near = own.intersection((*module.operands[i], *module.users[i])) - found
        found |= near
        stack += near
    return set(found)


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


def with_placeless(
    case: Case, groups: Sequence[list[int]], placed: Collection[int]
) -> list[list[int]]:
    """The groups; where at most one has a line (is `placed`), they are one.

    Derivatives often have no line: next to one line at which something differs they follow from it.
    Where modules know no lines, nothing tells reasons apart.
    """
    known = sum(1 for group in groups if not set(placed).isdisjoint(group))
    is_one = known == 1 or not (knows_lines(case.diff.a) or knows_lines(case.diff.b))
    return [sorted(k for group in groups for k in group)] if groups and is_one else list(groups)


def inputs_of(
    case: Case, piece_a: Collection[int], piece_b: Collection[int]
) -> list[tuple[int, int]]:
    """The paired values that either piece takes in: both are left to be compared."""
    a, b = case.a, case.b
    end_a, end_b = max(piece_a), max(piece_b)
    below_a = {p for i in piece_a for p in a.module.operands[i]}
    below_b = {q for j in piece_b for q in b.module.operands[j]}
    found = {(p, a.partners[p]) for p in below_a if a.partners[p] >= 0}
    found |= {(b.partners[q], q) for q in below_b if b.partners[q] >= 0}
    return sorted((p, q) for p, q in found if p < end_a and q < end_b)


def computed(module: Module, piece: set[int]) -> int:
    """How many instructions a piece runs, those of computations that only it calls included."""
    inner = called_only_by(module, piece)
    return len(piece) + sum(1 for i in inner if module.opcodes[i] != "parameter")
