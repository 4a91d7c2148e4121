"""Rows for two modules side by side: partners share a row, the rest stands where it belongs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from xlagraph.report.model import Section

if TYPE_CHECKING:
    from collections.abc import Sequence

    from xlagraph.diff.match import Match
    from xlagraph.graph import Computation


def align(match: Match) -> tuple[Section, ...]:
    """Every computation of both modules once: the entry first, then A's order, then B's own.

    Rows follow A's text. What only B has follows the row of the instruction before it in B's
    text, so that a run of new instructions stays together.
    """
    a, b = match.a.module, match.b.module
    sections = [_section(match, a.entry_computation, b.entry_computation)]
    taken = {b.entry}
    for computation in a.computations:
        if computation.index == a.entry:
            continue
        partner = match.computations.get(computation.index)
        if partner is None or partner in taken:
            span = tuple(range(computation.start, computation.stop))
            sections.append(Section(computation.index, -1, span, (-1,) * len(span)))
        else:
            taken.add(partner)
            sections.append(_section(match, computation, b.computations[partner]))
    for computation in b.computations:
        if computation.index not in taken:
            span = tuple(range(computation.start, computation.stop))
            sections.append(Section(-1, computation.index, (-1,) * len(span), span))
    return tuple(sections)


def _section(match: Match, ca: Computation, cb: Computation) -> Section:
    after = _followers(match.to_a, ca, cb)
    rows_a: list[int] = []
    rows_b: list[int] = []

    def put(a: int, b: int) -> None:
        rows_a.append(a)
        rows_b.append(b)

    for follower in after.get(-1, ()):
        put(-1, follower)
    for x in range(ca.start, ca.stop):
        y = match.to_b[x]
        y = y if cb.start <= y < cb.stop else -1
        put(x, y)
        if y >= 0:
            for follower in after.get(y, ()):
                put(-1, follower)
    return Section(ca.index, cb.index, tuple(rows_a), tuple(rows_b))


def _followers(to_a: Sequence[int], ca: Computation, cb: Computation) -> dict[int, list[int]]:
    """B's own instructions by the paired instruction of B that they follow; -1: none."""
    after: dict[int, list[int]] = {}
    last = -1
    for y in range(cb.start, cb.stop):
        if ca.start <= to_a[y] < ca.stop:
            last = y
        else:
            after.setdefault(last, []).append(y)
    return after
