"""What happened, where, and what to change: the three things that a reader wants first."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, NamedTuple

from xlagraph.message import EMPTY, Code, Message, Operation, join, say

if TYPE_CHECKING:
    from xlagraph.message import SourceLine
    from xlagraph.tensors import Tensor


class Made(NamedTuple):
    """Lines above one that make what it hands over, and are to be edited with it."""

    name: str
    """What the program calls it."""
    lines: tuple[int, ...]

    @property
    def message(self) -> Message:
        """``, with lines 106 and 107, which make count``."""
        first, last = self.lines[0], self.lines[-1]
        if first == last:
            return say(f", with line {first}, which makes ", Code(self.name))
        between = "and" if last == first + 1 else "to"
        return say(f", with lines {first} {between} {last}, which make ", Code(self.name))


@dataclass(frozen=True, slots=True)
class Place:
    """Where in the user's program a cause goes back to."""

    line: SourceLine | None = None
    """The innermost line of the program itself, else a library's; None if none is known."""
    stack: tuple[SourceLine, ...] = ()
    """The frames around `line`, innermost first; empty where only the line is known."""
    source: tuple[tuple[int, str], ...] = ()
    """`line` with those around it: numbers and texts, as they were when the run was captured."""
    tensors: tuple[Tensor, ...] = ()
    """The tensors that the cause names."""
    further: int = 0
    """How many it has beside these."""
    unknown: Message = EMPTY
    """Why there is no line."""
    command: Message = EMPTY
    """The command that captures one."""
    is_near: bool = False
    """What differs stands in a library alone, and `line` is what is nearest to it in the graph."""
    beside: SourceLine | None = None
    """Of what is near: the line on its other side, which takes in what it makes, or gives it."""
    step_ends: SourceLine | None = None
    """Where the step ends that shows it, if no line is known."""
    made: Made | None = None
    """The lines of the same file that are to be edited with `line`."""
    sets: str = ""
    """The option of a layer that `line` sets, if it does that and runs no operation."""

    def at(self, line: SourceLine | None) -> Place:
        """The place at another line, whose own it is; as it is where there is none."""
        if line is None:
            return self
        source = self.source if line == self.line else ()
        return replace(self, line=line, stack=(), source=source, is_near=False)

    @property
    def excerpt(self) -> tuple[tuple[int, str], ...]:
        """`source` without blank lines at both ends."""
        told = [number for number, text in self.source if text.strip()]
        return tuple(one for one in self.source if told and told[0] <= one[0] <= told[-1])

    def is_marked(self, number: int) -> bool:
        """Whether this line of `source` is the one, or to be edited with it."""
        is_here = self.line is not None and self.line.line == number
        return is_here or (self.made is not None and number in self.made.lines)

    @property
    def in_short(self) -> Message:
        """Line, function and tensor, or the command that captures the line."""
        tensors = self._tensors
        if self.line:
            operation = self.line.backward_of
            before = say("near ") if self.is_near else EMPTY
            if operation:
                before = say(before, "backward of ", Operation(operation), " at ")
            made = self.made.message if self.made else EMPTY
            if self.sets:
                made = say(", which sets ", Code(f".{self.sets}"))
            also = say(" and ", self.beside) if self.is_near and self.beside else EMPTY
            return say(before, self.line, also, made, say(": ", tensors) if tensors else EMPTY)
        named = say(tensors, "; ") if tensors else EMPTY
        if self.command:
            return say(named, "line not captured; run: ", self.command)
        if self.step_ends:
            return say(named, "the step that ends at ", self.step_ends)
        return say(named, "line not known") if self.unknown else named

    @property
    def _tensors(self) -> Message:
        """The first tensor, and how many there are beside it."""
        first, *others = self.tensors or (EMPTY,)
        left = len(others) + self.further
        return say(first, f" and {left} more" if left else "")

    @property
    def within(self) -> Message:
        """The same within a sentence: `` at train.py:7``; empty where no place is known."""
        if self.line and self.is_near:
            return say(" ", self.in_short)
        if self.line and self.sets:
            return say(": ", self.line, " sets ", Code(f".{self.sets}"))
        if self.line:
            alone = replace(self, made=None).in_short
            return say(" in the " if self.line.backward_of else " at ", alone)
        return say(" in the step that ends at ", self.step_ends) if self.step_ends else EMPTY

    @property
    def message(self) -> Message:
        """The same, and why there is no line."""
        if self.line and self.is_near:
            return say(self.in_short, "; the program's own lines nearest to it in the graph")
        if self.line or not self.unknown:
            return self.in_short
        step = say(" The step ends at ", self.step_ends, ".") if self.step_ends else EMPTY
        run = say(" Run: ", self.command) if self.command else EMPTY
        named = say(self._tensors, "; ") if self.tensors else EMPTY
        return say(named, "line not known: ", self.unknown, ".", step, run)

    def named(self, a: str, b: str) -> Place:
        """The same with both modules called by name."""
        return replace(self, unknown=self.unknown.named(a, b))


NOWHERE = Place()
"""Nothing is known of a place, not even why."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """An explanation in three short lines, which terminal, page and JSON show first."""

    what: Message
    where: Message = EMPTY
    """Empty where nothing differs."""
    fix: Message = EMPTY
    """Empty where there is nothing to change."""
    notes: tuple[Message, ...] = ()
    """What limits it: what else differs, what is not explained, what was not compared."""

    @property
    def lines(self) -> tuple[tuple[str, Message], ...]:
        """What, Where and Fix, as far as there is something to say."""
        named = (("What", self.what), ("Where", self.where), ("Fix", self.fix))
        return tuple((name, message) for name, message in named if message)

    @property
    def message(self) -> Message:
        """Everything in one paragraph."""
        parts = [self.what, *((say("Where: ", self.where, "."),) if self.where else ())]
        parts += [self.fix] if self.fix else []
        return join((*parts, *self.notes), len(parts) + len(self.notes), " ")

    def __str__(self) -> str:
        return str(self.message)

    def named(self, a: str, b: str) -> Verdict:
        """The same with both modules called by name."""
        return Verdict(
            self.what.named(a, b),
            self.where.named(a, b),
            self.fix.named(a, b),
            tuple(note.named(a, b) for note in self.notes),
        )
