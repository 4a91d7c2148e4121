"""What differs as a region: between values that both have and values that both use alike."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from xlagraph.canon.labels import bare_shape
from xlagraph.canon.live import has_effect
from xlagraph.cause.slices import live_work
from xlagraph.cause.sources import where
from xlagraph.facts.pieces.pieces import OUTPUT, Edge, Groups, with_placeless
from xlagraph.facts.values.scalars import is_scalar_input

if TYPE_CHECKING:
    from collections.abc import Iterable

    from xlagraph.cause.case import Case, SideView
    from xlagraph.graph import Module
    from xlagraph.message import SourceLine

MAX_PART = 0.3
"""Of the smaller module: of more it says nothing that it is computed in another way."""
MAX_WORK = 4_000_000
"""Instructions times edges: each edge is asked what it is made of."""
MAX_ROUNDS = 100
"""How often the region is widened: what needs more spreads through the module."""
SPREAD = frozenset({"operands"})
"""What differs of an instruction where it only takes in what differs."""


@dataclass(frozen=True, slots=True)
class Region:
    """What differs on both sides, and where the rest of both takes it in."""

    a: set[int]
    b: set[int]
    edges: list[Edge] = field(default_factory=list)
    """Of the values at least one is of the region. Where both are they stand for each other; else
    one side uses its piece where the other uses what both have."""
    ends: set[tuple[int, int]] = field(default_factory=set)
    """Values of both sides that stand for each other at edges, and none for two."""
    used: tuple[set[int], set[int]] = field(default_factory=lambda: (set(), set()))
    """The values in `ends`, A's and B's."""

    def end(self, edge: Edge) -> None:
        """Takes note of an edge."""
        self.edges.append(edge)
        if edge.p in self.a and edge.q in self.b:
            self.ends.add((edge.p, edge.q))
            self.used[0].add(edge.p)
            self.used[1].add(edge.q)

    def clear(self) -> None:
        """Forgets the edges."""
        self.edges.clear()
        self.ends.clear()
        self.used[0].clear()
        self.used[1].clear()

    def add(self, x: int, y: int) -> None:
        """Takes in a pair."""
        self.a.add(x)
        self.b.add(y)


def region_of(case: Case, apart: frozenset[tuple[int, int]] = frozenset()) -> Region | None:
    """All that differs, widened until it ends in values of one shape that are used alike.

    None if that is much of a module, takes in an input of one side alone or has an effect.
    `apart`: pairs that take in other values for a reason of their own, A's and B's.
    """
    a, b = case.a, case.b
    changes = case.open_changes()
    entry = a.module.entry_computation
    taken_in = {
        (x, y)
        for x, y, fields in changes
        if SPREAD.issuperset(fields) and entry.start <= x < entry.stop
    }
    own = [(x, y) for x, y, _ in changes if (x, y) not in taken_in]
    taken_in -= apart
    region = Region(
        _in_entry(a.module, {*a.open_lone(), *(x for x, _ in own)}),
        _in_entry(b.module, {*b.open_lone(), *(y for _, y in own)}),
    )
    limit = 2 * MAX_PART * min(live_work(a.module), live_work(b.module))
    size = -1
    for _ in range(MAX_ROUNDS):
        if not size < len(region.a) + len(region.b) <= limit:
            break
        size = len(region.a) + len(region.b)
        region.clear()
        if not _give_out(case, region):
            return None
        _bound(case, region, taken_in)
    is_whole = size == len(region.a) + len(region.b) and size * len(region.edges) <= MAX_WORK
    return region if is_whole and region.edges and _is_plain(case, region) else None


def _in_entry(module: Module, instructions: set[int]) -> set[int]:
    """These instructions, or what calls them: all that stands in the entry."""
    entry = module.entry_computation
    found = {i for i in instructions if entry.start <= i < entry.stop}
    left = instructions - found
    while left:
        called = {module.computation_of(i).index for i in left}
        callers = {i for c in called for i in module.callers.get(c, ())}
        found |= {i for i in callers if entry.start <= i < entry.stop}
        left = callers - found
    return found


def _bound(case: Case, region: Region, taken_in: Iterable[tuple[int, int]]) -> None:
    """Notes where the region ends, and takes in pairs before which it cannot end."""
    a, b = case.a, case.b
    users = set(taken_in)
    users |= {(x, a.partners[x]) for i in region.a for x in a.module.users[i]}
    users |= {(b.partners[y], y) for j in region.b for y in b.module.users[j]}
    roots = (a.module.entry_computation.root, b.module.entry_computation.root)
    for x, y in sorted(users - {roots}):
        if x < 0 or y < 0 or (x in region.a and y in region.b):
            continue
        edges = _edges(case, region, x, y)
        if x in region.a or y in region.b or edges is None:
            region.add(x, y)
        else:
            for edge in edges:
                region.end(edge)


def _edges(case: Case, region: Region, x: int, y: int) -> list[Edge] | None:
    """Where a pair takes in the region; None if the region cannot end before it."""
    below_a, below_b = case.diff.a.operands[x], case.diff.b.operands[y]
    if len(below_a) != len(below_b):
        return None
    edges = [
        Edge(x, y, place, p, q)
        for place, (p, q) in enumerate(zip(below_a, below_b, strict=True))
        if p in region.a or case.a.partners[p] != q
    ]
    ends = {(e.p, e.q) for e in edges if e.p in region.a and e.q in region.b}
    is_clear = len({p for p, _ in ends}) == len(ends) == len({q for _, q in ends})
    return edges if is_clear and all(_may_end(case, region, edge) for edge in edges) else None


def _may_end(case: Case, region: Region, edge: Edge) -> bool:
    """Whether the region can end with this use: the values have one shape, and no other partner.

    They may lie in memory in another order, as what was a transpose and is a sum.
    """
    p, q = edge.p, edge.q
    if bare_shape(case.diff.a, p) != bare_shape(case.diff.b, q):
        return False
    if p in region.a and q in region.b:
        return (p, q) in region.ends or not (p in region.used[0] or q in region.used[1])
    if edge.place == OUTPUT:
        return False
    return (p in region.a and case.b.partners[q] >= 0) or (
        q in region.b and case.a.partners[p] >= 0
    )


def _give_out(case: Case, region: Region) -> bool:
    """Notes the outputs that differ; False if they do not stand for each other."""
    a, b = case.diff.a, case.diff.b
    roots = (a.entry_computation.root, b.entry_computation.root)
    outputs = [(s.a, s.b) for s in case.diff.outputs if s.a is not None and s.b is not None]
    for j, k in (*outputs, *case.replaced_outputs()):
        edge = Edge(*roots, OUTPUT, a.outputs[j], b.outputs[k])
        if case.a.partners[edge.p] == edge.q and edge.p not in region.a:
            continue
        region.add(edge.p, edge.q)
        if not _may_end(case, region, edge):
            return False
        region.end(edge)
    return True


def _is_plain(case: Case, region: Region) -> bool:
    """Whether it takes in no tensor of one side alone, and does nothing but give values.

    A number that Python hands in for a piece belongs to that.
    """
    return all(
        (view.module.opcodes[i] != "parameter" or is_scalar_input(view.module, i))
        and not has_effect(view.module, i)
        for view, mine in ((case.a, region.a), (case.b, region.b))
        for i in mine
    )


def parts_of(case: Case, region: Region) -> list[Region]:
    """A region as pieces that have neither an instruction nor a line in common."""
    edges = region.edges
    groups = Groups(len(edges))
    placed: list[int] = []
    for view, mine in ((case.a, region.a), (case.b, region.b)):
        seen: dict[object, int] = {}
        for k, edge in enumerate(edges):
            below = below_of(view, mine, edge.value(view))[0]
            lines = _lines(view, below, edge.user(view)) if below else ()
            placed += [k] if lines else []
            for key in (*below, *(line.forward for line in lines)):
                groups.join(seen.setdefault(key, k), k)
    parts = with_placeless(case, groups.members(), placed)
    return [_part(case, region, [edges[k] for k in members]) for members in parts]


def _part(case: Case, region: Region, edges: list[Edge]) -> Region:
    """What of a region leads to these of its edges."""
    return Region(
        set().union(*(below_of(case.a, region.a, e.p)[0] for e in edges)),
        set().union(*(below_of(case.b, region.b, e.q)[0] for e in edges)),
        edges,
    )


def _lines(view: SideView, piece: Iterable[int], user: int) -> tuple[SourceLine, ...]:
    """The lines of a piece; where it has none, of what takes it in."""
    return where(view.module, piece) or where(view.module, [user])


def below_of(view: SideView, mine: set[int], end: int) -> tuple[set[int], set[int]]:
    """Of a piece what one of its values is made of, and what that takes in from outside."""
    members, inputs, stack = set[int](), set[int](), [end]
    while stack:
        i = stack.pop()
        if i not in mine:
            inputs.add(i)
        elif i not in members:
            members.add(i)
            stack.extend(view.module.operands[i])
    return members, inputs
