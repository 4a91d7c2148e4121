"""Order: computations behind those they call, instructions behind those they use."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence


class CircleError(ValueError):
    """Something depends on itself; `place` is its position."""

    def __init__(self, place: int):
        super().__init__(f"{place} depends on itself")
        self.place = place


def needed_first(below: Sequence[Sequence[int]]) -> list[int]:
    """Positions in an order in which each stands behind all that it needs; linear time.

    `below` has for each position what it needs. An order that is sound already stays.

    Raises:
        CircleError: something needs itself.
    """
    if all(max(needed, default=-1) < at for at, needed in enumerate(below)):
        return list(range(len(below)))
    done: dict[int, None] = {}
    open_: set[int] = set()
    for start in range(len(below)):
        stack = [start]
        while stack:
            at = stack[-1]
            if at in done:
                stack.pop()
                continue
            pending = [other for other in below[at] if other not in done]
            if not pending:
                done[at] = None
                open_.discard(at)
                stack.pop()
                continue
            if at in open_:
                raise CircleError(at)
            open_.add(at)
            stack.extend(reversed(pending))
    return list(done)
