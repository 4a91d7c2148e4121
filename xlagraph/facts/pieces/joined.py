"""Concatenations of lists of another length: which tensors one side alone joins."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from xlagraph.facts.pieces.pieces import piece_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from xlagraph.cause.case import Case, SideView
    from xlagraph.cause.editor import Editors
    from xlagraph.message import Side


@dataclass(frozen=True, slots=True)
class LongerList:
    """A concatenation that one side makes of more tensors."""

    side: Side
    instruction: int
    shared: tuple[int, ...]
    """Its operands that the other side joins, too; in the same order."""
    number: tuple[int, int]
    """How many tensors A and B join."""
    piece: frozenset[int]
    """What only the further tensors need, on that side."""

    def shorten(self, edit: Editors) -> None:
        """Lets it join what both sides have; its shape is another matter."""
        edit[self.side].set_operands(self.instruction, self.shared)


def longer_lists(case: Case, starts: Mapping[int, int]) -> list[LongerList]:
    """Those of these pairs of concatenations where one joins what the other does, and more."""
    found = []
    for x, y in starts.items():
        number = len(case.diff.a.operands[x]), len(case.diff.b.operands[y])
        if case.diff.a.opcodes[x] != "concatenate" or number[0] == number[1]:
            continue
        more, less = (case.a, case.b) if number[0] > number[1] else (case.b, case.a)
        longer = _longer(more, more.mine((x, y)), less, less.mine((x, y)), number)
        found += [longer] if longer else []
    return found


def pieces(lists: Iterable[LongerList], side: Side) -> list[frozenset[int]]:
    """What only the further tensors of one side's lists need."""
    return [one.piece for one in lists if one.side is side]


def _longer(
    more: SideView, i: int, less: SideView, j: int, number: tuple[int, int]
) -> LongerList | None:
    theirs = [less.partners[o] for o in less.module.operands[j]]
    shared = tuple(o for o in more.module.operands[i] if o in set(theirs))
    if list(shared) != theirs:
        return None
    own = [o for o in more.module.operands[i] if o not in set(theirs)]
    return LongerList(more.side, i, shared, number, frozenset(piece_of(more, own)))
