"""What happened, where, and what to change, for the terminal."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from rich.text import Text

from xlagraph.cause.verdict import NOWHERE
from xlagraph.message import count, say
from xlagraph.terminal.style import evidence_line, labelled, paragraph, print_labelled, printable

if TYPE_CHECKING:
    from rich.console import Console

    from xlagraph.cause.model import Cause
    from xlagraph.cause.verdict import Place, Verdict
    from xlagraph.message import Message

LABEL = 5
"""Columns of What, Where and Fix."""
INDENT = 3
"""Columns that what belongs to a numbered cause is moved in by."""


@dataclass(frozen=True, slots=True)
class Shown:
    """How much the user asked for."""

    full: bool = False
    """All evidence, all graphs."""
    stack: bool = False
    """The frames around the line of each cause."""

    def few(self, number: int) -> int | None:
        """How many of a list's items are shown: `number`, or all."""
        return None if self.full else number


def print_verdict(console: Console, verdict: Verdict, place: Place = NOWHERE) -> None:
    """Prints the three lines, the program's lines at `place`, and what limits them."""
    for label, message in verdict.lines:
        print_labelled(console, label, message, width=LABEL, style="bold")
        if label == "Where":
            _print_source(console, place, LABEL + 1)
    for note in verdict.notes:
        console.print(paragraph(note))
    console.print()


def print_advice(console: Console, what: Message, place: Place, fix: Message, shown: Shown) -> None:
    """Prints What, Where and Fix of one cause in full; `what` ends without a full stop."""
    console.print(labelled("What", say(what.sentence, "."), INDENT, LABEL))
    print_place(console, place, fix, shown)


def print_place(console: Console, place: Place, fix: Message, shown: Shown) -> None:
    """Prints Where and Fix."""
    if place.message:
        console.print(labelled("Where", place.message, INDENT, LABEL))
    _print_source(console, place, INDENT + LABEL + 1)
    for frame in place.stack if shown.stack else ():
        console.print(labelled("", say(frame), INDENT, LABEL))
    print_labelled(console, "Fix", fix, INDENT, LABEL)


def _print_source(console: Console, place: Place, indent: int) -> None:
    """The line itself, with those around it."""
    for number, text in place.excerpt:
        is_marked = place.is_marked(number)
        mark = ">" if is_marked else " "
        row = Text(" " * indent + printable(f"{mark} {number:>5}  {text}"))
        row.stylize("" if is_marked else "dim")
        console.print(row, soft_wrap=True)


def print_evidence(console: Console, cause: Cause, number: int, shown: Shown) -> None:
    """Prints lines of evidence, at most `number` of them unless all are asked for."""
    lines = cause.evidence[: shown.few(number)]
    for evidence in lines:
        console.print(labelled("-", evidence_line(evidence), INDENT))
    left = len(cause.evidence) - len(lines)
    if left:
        console.print(labelled("-", f"{count(left, 'more line')} (--full shows all)", INDENT))
