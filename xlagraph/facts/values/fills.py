"""Constants spread over a tensor, of which one side has one and the other one for each size."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from xlagraph.cause.case import Case
    from xlagraph.cause.editor import Editors
    from xlagraph.diff.match import Side


@dataclass(frozen=True, slots=True)
class Fills:
    """Uses of a filled tensor whose size followed, with the tensor that the other side uses."""

    a: Mapping[tuple[int, int], int]
    """User and place in A; A's own tensor of the size that B uses there."""
    b: Mapping[tuple[int, int], int]
    pairs: frozenset[tuple[int, int]]
    """The tensors used there, A's and B's."""

    def undo(self, edit: Editors) -> None:
        """Lets both sides use a tensor of one size: it is the same number everywhere."""
        for editor, uses in zip(edit, (self.a, self.b), strict=True):
            for (user, place), value in uses.items():
                editor.set_operand(user, place, value)


def fills(case: Case, members: Mapping[int, int]) -> Fills:
    """What changed elements are computed with, where a filled tensor was shared by both sizes."""
    match = case.diff.match
    known_a, known_b = dict(_filled(match.a)), dict(_filled(match.b))
    uses_a: dict[tuple[int, int], int] = {}
    uses_b: dict[tuple[int, int], int] = {}
    pairs = set()
    for x, y in members.items():
        for place, (p, q) in enumerate(
            zip(case.diff.a.operands[x], case.diff.b.operands[y], strict=False)
        ):
            if members.get(p) == q or not _is_same_number(case, (x, y), p, q):
                continue
            other_b = known_b.get(match.a.expressions[p], y)
            other_a = known_a.get(match.b.expressions[q], x)
            if other_b < y:
                uses_b[y, place] = other_b
                pairs.add((p, q))
            elif other_a < x:
                uses_a[x, place] = other_a
                pairs.add((p, q))
    return Fills(uses_a, uses_b, frozenset(pairs))


def _filled(side: Side) -> Iterator[tuple[int, int]]:
    """The filled tensors of a module by the numbers of their expressions."""
    for i, opcode in enumerate(side.module.opcodes):
        if opcode == "broadcast" and side.closed[i] and side.live[i]:
            yield side.expressions[i], i


def _is_same_number(case: Case, users: tuple[int, int], p: int, q: int) -> bool:
    """Whether two operands are filled with one number, each to the size of its user."""
    match = case.diff.match
    for side, user, i in ((match.a, users[0], p), (match.b, users[1], q)):
        module = side.module
        if module.opcodes[i] != "broadcast" or not side.closed[i]:
            return False
        if (
            module.shapes[i] != module.shapes[user]
            or "[]" not in module.shapes[module.operands[i][0]]
        ):
            return False
    first, second = (m.module.operands[i][0] for m, i in ((match.a, p), (match.b, q)))
    return match.a.expressions[first] == match.b.expressions[second]
