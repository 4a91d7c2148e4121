"""Copies that XLA makes for layouts and donated buffers, on one side only."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from xlagraph.cause.case import Case, SideView
    from xlagraph.cause.editor import Editors


@dataclass(frozen=True, slots=True)
class Copies:
    """Copies that one side alone makes, and the changed pairs that take them in."""

    a: tuple[int, ...]
    b: tuple[int, ...]
    users: tuple[tuple[int, int], ...]

    def __len__(self) -> int:
        return len(self.a) + len(self.b)

    @property
    def claimed_a(self) -> frozenset[int]:
        """What they account for in A."""
        return frozenset(self.a) | {x for x, _ in self.users}

    @property
    def claimed_b(self) -> frozenset[int]:
        """What they account for in B."""
        return frozenset(self.b) | {y for _, y in self.users}

    def skip(self, edit: Editors) -> None:
        """Lets their users take the original."""
        edit.a.bypass(self.a)
        edit.b.bypass(self.b)


def lone_copies(case: Case) -> Copies:
    """The copies that have no partner and that nothing accounts for yet."""
    lone_a, lone_b = _lone(case.a), _lone(case.b)
    operands_a, operands_b = case.diff.a.operands, case.diff.b.operands
    users = tuple(
        (x, y)
        for x, y in case.changed_alone("operands")
        if set(lone_a).intersection(operands_a[x]) or set(lone_b).intersection(operands_b[y])
    )
    return Copies(lone_a, lone_b, users)


def _lone(view: SideView) -> tuple[int, ...]:
    return tuple(i for i in view.open_lone() if view.module.opcodes[i] == "copy")
