"""Which differences follow from which: the origins of each cause, and what they lead to.

A changed pair follows from the differing values that it takes in; so does what is on one side only
and depends on a changed pair. Of what is left, the evidence says which is the origin; only a piece
of graph that is there or not stays an origin as a whole. Causes are kept apart: nothing follows
from another cause's origin.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from typing import TYPE_CHECKING

from xlagraph.cause.kinds import Section
from xlagraph.facts.pieces.propagation import call_edges

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from xlagraph.cause.model import Cause, Evidence, Explanation
    from xlagraph.graph import Module

    Rows = Mapping[tuple[str, int], int]


@dataclass(frozen=True, slots=True, eq=False)
class Origins:
    """The differing rows of a pair; A's instruction stands for a pair, ``-1 - y`` for B's own."""

    rows: Rows
    """Side and instruction of everything that differs, with the row that it stands in."""
    cause: Mapping[int, int]
    """Number of the first cause that accounts for a row, -1 for none."""
    follows: Mapping[int, int]
    """Row to the origin that it follows from; origins are not in it."""

    def of_cause(self, number: int) -> list[int]:
        """The origins of a cause: those of A in its order, then those that only B has."""
        return sorted(
            (row for row, k in self.cause.items() if k == number and row not in self.follows),
            key=lambda row: (row < 0, abs(row)),
        )


def origins(explanation: Explanation) -> Origins:
    """Walks from what nothing feeds along operands and calls; linear in what differs."""
    diff = explanation.diff
    changed = {change.a for change in diff.changes}
    rows = {("a", change.a): change.a for change in diff.changes}
    rows |= {("b", change.b): change.a for change in diff.changes}
    rows |= {("a", x): x for x in diff.removed} | {("b", y): -1 - y for y in diff.added}
    cause = _causes(explanation, rows)
    feeds: dict[int, list[int]] = {row: [] for row in rows.values()}
    fed = set()
    for side, module in (("a", diff.a), ("b", diff.b)):
        for source, target in _edges(module, side, rows):
            if source != target and cause[target] in (cause[source], -1):
                feeds[source].append(target)
                fed.add(target)
    led = _reached(feeds, changed) | (changed & fed)
    starts = [row for row in feeds if row not in led]
    heads: dict[int, int] = {}
    for number, one in enumerate(explanation.causes):
        mine = {place: row for place, row in rows.items() if cause[row] == number}
        own = [row for row in dict.fromkeys(mine.values()) if row not in led]
        heads |= _heads(one, own, mine, changed)
    return Origins(rows, cause, _follows(feeds, starts, heads))


def _causes(explanation: Explanation, rows: Rows) -> dict[int, int]:
    found = dict.fromkeys(rows.values(), -1)
    for number, cause in reversed(list(enumerate(explanation.causes))):
        for side, claimed in (("a", cause.a), ("b", cause.b)):
            for i in claimed:
                if (side, i) in rows:
                    found[rows[side, i]] = number
    return found


def _edges(module: Module, side: str, rows: Rows) -> Iterator[tuple[int, int]]:
    """From a differing row to one that takes its value in."""
    for (on, i), row in rows.items():
        if on == side:
            for operand in module.operands[i]:
                if (side, operand) in rows:
                    yield rows[side, operand], row
    for source, target in call_edges(module):
        if (side, source) in rows and (side, target) in rows:
            yield rows[side, source], rows[side, target]


def _reached(feeds: Mapping[int, list[int]], starts: Iterable[int]) -> set[int]:
    """What the starts lead to; a start only where another leads to it."""
    reached: set[int] = set()
    queue = list(starts)
    while queue:
        for target in feeds[queue.pop()]:
            if target not in reached:
                reached.add(target)
                queue.append(target)
    return reached


def _heads(cause: Cause, starts: list[int], rows: Rows, changed: set[int]) -> dict[int, int]:
    """Where a cause begins: for each start the origin that it follows from, itself if it is one.

    The first evidence that cites what differs decides, and of that what nothing feeds.
    """
    cited = next(filter(None, (_rows(one, rows) for one in cause.evidence)), [])
    is_start = set(starts)
    first = [row for row in cited if row in is_start] or cited[:1] or starts
    whole = cause.kind.section is Section.PIECES
    heads = {row: row if whole and row not in changed else first[0] for row in starts}
    return heads | {row: row for row in first}


def _rows(evidence: Evidence, rows: Rows) -> list[int]:
    """The differing rows that it cites, each once."""
    cited = [("a", i) for i in evidence.a] + [("b", i) for i in evidence.b]
    return list(dict.fromkeys(rows[place] for place in cited if place in rows))


def _follows(
    feeds: Mapping[int, list[int]], starts: list[int], heads: Mapping[int, int]
) -> dict[int, int]:
    """The nearest origin of each row; a circle that none leads to begins at its first row."""
    origin: dict[int, int] = {}
    own = [row for row, head in heads.items() if row == head]
    is_start = set(starts)
    for beginning in (own, starts, *([row] for row in feeds)):
        queue = deque(row for row in beginning if row not in origin)
        origin |= {row: heads.get(row, row) for row in queue}
        while queue:
            row = queue.popleft()
            for target in feeds[row]:
                if target not in origin and target not in is_start:
                    origin[target] = origin[row]
                    queue.append(target)
    return {row: first for row, first in origin.items() if row != first}
