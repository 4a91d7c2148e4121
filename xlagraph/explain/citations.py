"""What a proof must cite: each input that one side alone has.

Undoing a cause may make the modules equal by leaving out more than it tells of. An input that
only one side takes in is told of where a finding accounts for it, or for all that reads it; a
piece of graph that merely stands between two values does not tell what it takes in.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from xlagraph.cause.finding import Finding
    from xlagraph.diff import Diff
    from xlagraph.diff.match import Side


def uncited_inputs(
    diff: Diff, findings: Sequence[Finding]
) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Parameters of A's and of B's entry that one side alone has and no finding tells of."""
    whole = [f for f in findings if not f.kind.is_piece]
    match = diff.match
    return (
        _uncited(match.a, match.to_b, [f.a for f in findings], [f.a for f in whole]),
        _uncited(match.b, match.to_a, [f.b for f in findings], [f.b for f in whole]),
    )


def _uncited(
    side: Side,
    partners: Sequence[int],
    claims: Sequence[frozenset[int]],
    readers: Sequence[frozenset[int]],
) -> tuple[int, ...]:
    module, live = side.module, side.live
    root = module.entry_computation.root
    claimed = frozenset[int]().union(*claims)
    told = set(frozenset[int]().union(*readers))
    found = []
    for p in module.entry_computation.parameters:
        users = [u for u in module.users[p] if live[u] and u != root]
        if partners[p] < 0 and users and p not in claimed and not _feeds_only(side, users, told):
            found.append(p)
    return tuple(found)


def _feeds_only(side: Side, users: Sequence[int], told: set[int]) -> bool:
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


MAX_STEPS = 64
"""Instructions on the way from an input to what is told of."""
