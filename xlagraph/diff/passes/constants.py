"""Constants are identified by their users: pairs that no user confirms are taken back."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from xlagraph.diff.pairing import Pairing
    from xlagraph.graph import Computation


def part_constants(pairing: Pairing, ca: Computation) -> None:
    """Parts constants that are alike but that no paired users use alike."""
    a, b, to_b = pairing.a.module, pairing.b.module, pairing.to_b
    for x in range(ca.start, ca.stop):
        y = to_b[x]
        if a.opcodes[x] != "constant" or y < 0:
            continue
        users = [u for u in a.users[x] if to_b[u] >= 0 and u != ca.root]
        if users and not any(y in b.operands[to_b[u]] for u in users):
            pairing.part(x)


def part_strays(pairing: Pairing, ca: Computation) -> None:
    """Parts what is made of other constants where no user has a partner on either side."""
    a, b, to_b, to_a = pairing.a, pairing.b, pairing.to_b, pairing.to_a
    for x in reversed(range(ca.start, ca.stop)):
        y = to_b[x]
        if y < 0 or not a.closed[x] or a.expressions[x] == b.expressions[y]:
            continue
        users = (to_b[u] for u in a.module.users[x])
        others = (to_a[u] for u in b.module.users[y])
        if max(users, default=0) < 0 and max(others, default=0) < 0:
            pairing.part(x)
