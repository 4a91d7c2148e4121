"""Links and source lines as a report writes them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from xlagraph.message import say, spans, words

if TYPE_CHECKING:
    from xlagraph.cause.model import Explanation, Member
    from xlagraph.message import Message, SourceLine
    from xlagraph.report.model import Spans
    from xlagraph.report.names import Names
    from xlagraph.runs.outcome import Outcome

LINK_NAME = 40
"""Characters of an instruction's name in the text of a link."""


@dataclass(frozen=True, slots=True, eq=False)
class ShownPair:
    """An explanation, what the page calls its two sides, and where it shows them."""

    names: Names
    explanation: Explanation | Outcome
    labels: tuple[str, str]
    identifier: str
    """Of the pair view, ``""`` where the report has none."""

    def link(self, side: str, instruction: int) -> tuple[str, str]:
        """Text and address of an instruction."""
        name = self.names.instruction(*self.explanation.instruction(side, instruction))
        label = self.labels[side == "b"]
        address = f"#/pair/{self.identifier}/i/{side}{instruction}"
        return f"{label}: {name[:LINK_NAME]}", address

    def said(self, message: Message) -> Spans:
        """A message in the report's words."""
        return spans(message, self.names)


def source_line(line: SourceLine | None, names: Names) -> str:
    """A line under the report's names, ``""`` for none."""
    return f"{names.path(line.file)}:{line.line}" if line else ""


def member_name(member: Member | None, names: Names) -> str:
    """A tensor in a bucket, a parameter or an output under the report's names."""
    return words(say(member or ""), names)
