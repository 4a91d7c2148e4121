"""What a rule hands over: a suspected cause, and how to undo it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from xlagraph.message import EMPTY

if TYPE_CHECKING:
    from collections.abc import Callable

    from xlagraph.cause.editor import Editors
    from xlagraph.cause.kinds import Kind
    from xlagraph.cause.model import Evidence, Seen
    from xlagraph.cause.verdict import Made
    from xlagraph.diff import Diff
    from xlagraph.message import Message, SourceLine

NONE: frozenset[int] = frozenset()
"""No instruction, or no output."""


def nothing(_edit: Editors) -> None:
    """Undoes nothing: the comparison forgives the difference by itself."""


def always(_finding: Finding, _diff: Diff) -> bool:
    """Any finding of the right kind."""
    return True


class Words(NamedTuple):
    """What a rule says of a case that it knows more of; empty is what its kind says."""

    fix: Message = EMPTY
    short: Message = EMPTY
    short_fix: Message = EMPTY


@dataclass(frozen=True, slots=True, eq=False)
class Finding:
    """A suspected cause: what it accounts for and how to undo it in editors of both modules."""

    kind: Kind
    title: Message
    """One sentence, without a capital letter and a full stop."""
    evidence: tuple[Evidence, ...]
    proof: Message
    """What `undo` does, in words."""
    fix: Message = EMPTY
    """Advice for this finding alone; empty where that of its kind will do."""
    short: Message = EMPTY
    """What happened in at most ten words; empty where that of its kind will do."""
    short_fix: Message = EMPTY
    """Where it has a `fix` of its own: the same in at most twelve words."""
    effect: Message = EMPTY
    """What it does to the training beside the time, where that is known: one sentence."""
    made: Made | None = None
    """Lines that are to be edited with the one it goes back to."""
    option: str = ""
    """An option of layers or parameters, as ``momentum``, that it comes of if the program sets it:
    see `xlagraph.explain.settings`."""
    seen: Seen | None = None
    """How large the number was that Python computes, where a largest one is to be chosen."""
    a: frozenset[int] = NONE
    b: frozenset[int] = NONE
    """The instructions of A and of B that it accounts for.

    Later rules of the same round do not see them, and they make up the cause's share. So a cause
    in a called computation claims the call and the instructions in there. Of the constants that it
    brings along it claims those that nothing else uses: others may differ for their own reasons.
    """
    undo: Callable[[Editors], None] = nothing
    """Makes both modules equal as far as this cause goes; see `ModuleEditor` for what it may write.

    It is called many times, each time on a copy: alone, after findings of earlier rounds, and with
    others left out. Instructions have the numbers of the modules that the rule was asked about in
    every round (but for what `ModuleEditor.become` did), their operands may have changed: it
    reads those from the editor, and keeps no state between calls.
    """
    dropped_a: frozenset[int] = NONE
    """Output positions of A that undoing sets aside."""
    dropped_b: frozenset[int] = NONE
    reorders: bool = False
    """Undoing puts B's outputs into A's order."""
    expected: bool = False
    """Part of a normal warm-up."""
    is_exact: bool = False
    """It changes no value: both modules give the same numbers, bit for bit."""
    is_neutral: bool = False
    """It was evaluated alone, and changes no value but for rounding."""
    incidental: bool = False
    """Never the reason of a compile: undone for the comparison, named only if it is alone."""

    brings: Callable[[Finding, Diff], bool] = always
    """Whether another finding, of a kind that may follow from this one's (`Kind.consequences`),
    does follow."""

    @property
    def is_silent(self) -> bool:
        """No instruction is cited and no output set aside: the header, or the outputs' order."""
        return not (self.a or self.b or self.dropped_a or self.dropped_b)

    @property
    def lines(self) -> tuple[SourceLine, ...]:
        """The source lines of the first evidence that has any."""
        return next((e.sources for e in self.evidence if e.sources), ())
