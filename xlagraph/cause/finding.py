"""What a rule hands over: a suspected cause, and how to undo it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from xlagraph.message import EMPTY

if TYPE_CHECKING:
    from collections.abc import Callable

    from xlagraph.cause.editor import Editors
    from xlagraph.cause.kinds import Kind
    from xlagraph.cause.model import Evidence
    from xlagraph.message import Message, SourceLine

NONE: frozenset[int] = frozenset()
"""No instruction, or no output."""


def nothing(_edit: Editors) -> None:
    """Undoes nothing: the comparison forgives the difference by itself."""


@dataclass(frozen=True, slots=True, eq=False)
class Finding:
    """A suspected cause: what it accounts for and how to undo it in editors of both modules."""

    kind: Kind
    title: Message
    evidence: tuple[Evidence, ...]
    proof: Message
    """What `undo` does, in words."""
    fix: Message = EMPTY
    """Advice for this finding alone; empty where that of its kind will do."""
    a: frozenset[int] = NONE
    b: frozenset[int] = NONE
    """The instructions of A and of B that it accounts for."""
    undo: Callable[[Editors], None] = nothing
    dropped_a: frozenset[int] = NONE
    """Output positions of A that undoing sets aside."""
    dropped_b: frozenset[int] = NONE
    reorders: bool = False
    """Undoing puts B's outputs into A's order."""
    expected: bool = False
    """Part of a normal warm-up."""
    incidental: bool = False
    """Never the reason of a compile: undone for the comparison, named only if it is alone."""

    @property
    def is_silent(self) -> bool:
        """No instruction is cited and no output set aside: the header, or the outputs' order."""
        return not (self.a or self.b or self.dropped_a or self.dropped_b)

    @property
    def lines(self) -> tuple[SourceLine, ...]:
        """The source lines of the first evidence that has any."""
        return next((e.sources for e in self.evidence if e.sources), ())
