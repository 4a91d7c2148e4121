"""Links and source lines as a report writes them."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from xlagraph.cause.model import Explanation
from xlagraph.message import Code, say, spans, words
from xlagraph.report.links import Links, within
from xlagraph.report.model import Advice, Compared
from xlagraph.runs.two_runs import changes, in_common

if TYPE_CHECKING:
    from xlagraph.cause.model import Cause, Evidence, Member
    from xlagraph.cause.verdict import Place, Verdict
    from xlagraph.message import Message, SourceLine
    from xlagraph.report.links import Goal
    from xlagraph.report.model import Spans
    from xlagraph.report.names import Names
    from xlagraph.runs.pairs.outcome import Outcome
    from xlagraph.runs.two_runs import Comparison

LINK_NAME = 40
"""Characters of an instruction's name in the text of a link."""


@dataclass(frozen=True, slots=True, eq=False)
class ShownPair:
    """An explanation, what the page calls its two sides, and where it shows them."""

    names: Names
    explanation: Explanation | Outcome
    """With its modules where the report shows the pair."""
    labels: tuple[str, str]
    identifier: str
    """Of the pair view, ``""`` where the report has none."""

    links: Links | None = field(init=False)

    def __post_init__(self) -> None:
        shown = self.explanation if self.identifier else None
        links = Links(shown) if isinstance(shown, Explanation) else None
        object.__setattr__(self, "links", links)

    def cited(self, evidence: Evidence) -> list[tuple[str, str]]:
        """Texts and addresses of what differs and is cited; empty if the page does not show it."""
        return [self._link(goal) for goal in self.links.goals(evidence)] if self.links else []

    def opening(self, cause: Cause | None = None) -> str:
        """The address at which a cause, or the first one, is looked at best."""
        if self.links is None:
            return ""
        cause = cause or next(iter(self.explanation.causes), None)
        where = self.links.opening(cause) if cause else "i"
        return f"#/pair/{self.identifier}/{where}"

    def _link(self, goal: Goal) -> tuple[str, str]:
        view, side, number = goal
        label, address = self.labels[side == "b"], f"#/pair/{self.identifier}/{within(goal)}"
        if view != "i":
            return f"{label}: {'input' if view == 'in' else 'output'} {number}", address
        name = self.names.instruction(*self.explanation.instruction(side, number))
        return f"{label}: {name[:LINK_NAME]}", address

    def said(self, message: Message) -> Spans:
        """A message in the report's words."""
        return spans(message, self.names)


def advice(verdict: Verdict, names: Names) -> Advice:
    """A verdict in the report's words."""
    return Advice(
        spans(verdict.what, names),
        spans(verdict.where, names),
        spans(verdict.fix, names),
        tuple(spans(note, names) for note in verdict.notes),
    )


def compared(comparison: Comparison, names: Names) -> Compared:
    """Two runs beside one another in the report's words."""
    title = Code(comparison.old.run.title)
    return Compared(
        spans(say("Compared with ", title, ": ", comparison.verdict.what.clause), names),
        comparison.is_worse,
        tuple((label, spans(said, names)) for label, said in changes(comparison)),
        in_common(comparison, names.input(comparison.new.run.title)),
    )


def excerpt(place: Place, names: Names) -> tuple[tuple[int, str, bool], ...]:
    """The source lines of a place: number, text, whether it is the line, or one to edit with it."""
    shown = names.excerpt(place.excerpt)
    return tuple((number, text, place.is_marked(number)) for number, text in shown)


def frames(place: Place, names: Names) -> tuple[str, ...]:
    """The stack of a place, innermost frame first."""
    return tuple(words(say(frame), names) for frame in place.stack)


def source_line(line: SourceLine | None, names: Names) -> str:
    """A line under the report's names, ``""`` for none."""
    return f"{names.path(line.file)}:{line.line}" if line else ""


def member_name(member: Member | None, names: Names) -> str:
    """A tensor in a bucket, a parameter or an output under the report's names."""
    return words(say(member or ""), names)
