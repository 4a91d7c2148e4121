"""What a proof must cite: each input that one side alone has.

Undoing a cause may make the modules equal by leaving out more than it tells of. An input that
only one side takes in is told of where a finding accounts for it, or for all that reads it, or
sets aside the outputs that need it; a piece of graph that merely stands between two values does
not tell what it takes in.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from xlagraph.cause.slices import exclusive_slice

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from xlagraph.cause.finding import Finding
    from xlagraph.diff import Diff
    from xlagraph.diff.match import Side

MAX_STEPS = 64
"""Instructions on the way from an input to what is told of."""


def uncited_inputs(
    diff: Diff, findings: Sequence[Finding]
) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Parameters of A's and of B's entry that one side alone has and no finding tells of."""
    whole = [f for f in findings if not f.kind.is_piece]
    match = diff.match
    aside_a, aside_b = _union(f.dropped_a for f in findings), _union(f.dropped_b for f in findings)
    told_a = _union(f.a for f in whole) | exclusive_slice(diff.a, aside_a)
    told_b = _union(f.b for f in whole) | exclusive_slice(diff.b, aside_b)
    return (
        _uncited(match.a, match.to_b, _union(f.a for f in findings), told_a),
        _uncited(match.b, match.to_a, _union(f.b for f in findings), told_b),
    )


def _union(sets: Iterable[frozenset[int]]) -> frozenset[int]:
    return frozenset[int]().union(*sets)


def _uncited(
    side: Side, partners: Sequence[int], claimed: frozenset[int], told: frozenset[int]
) -> tuple[int, ...]:
    module, live = side.module, side.live
    root = module.entry_computation.root
    found = []
    for p in module.entry_computation.parameters:
        users = [u for u in module.users[p] if live[u] and u != root]
        if partners[p] < 0 and users and p not in claimed and not _feeds_only(side, users, told):
            found.append(p)
    return tuple(found)


def _feeds_only(side: Side, users: Sequence[int], told: frozenset[int]) -> bool:
    """Whether everything on the way from `users` ends in what is told of."""
    module, live, root = side.module, side.live, side.module.entry_computation.root
    stack, seen = list(users), set[int]()
    while stack:
        i = stack.pop()
        if i in told or i in seen:
            continue
        seen.add(i)
        onward = [u for u in module.users[i] if live[u]]
        if not onward or root in onward or len(seen) > MAX_STEPS:
            return False
        stack += onward
    return True
