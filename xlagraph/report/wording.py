"""Sentences about a pair, and what its two sides are called."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from xlagraph.cause.model import Cause, Explanation
    from xlagraph.report.names import Names

LINK_NAME = 40
"""Characters of an instruction's name in the text of a link."""


@dataclass(frozen=True, slots=True, eq=False)
class PairWording:
    """What the two sides of an explanation are called, and where the pair is shown."""

    names: Names
    explanation: Explanation
    labels: tuple[str, str]
    identifier: str
    """Of the pair view, ``""`` where the report has none."""

    def text(self, raw: str) -> str:
        """A sentence of an explanation, names redacted where asked."""
        return self.names.text(raw)

    def title(self, cause: Cause) -> str:
        """A cause's title as a sentence."""
        return sentence(self.text(cause.title))

    def verdict(self) -> str:
        """The verdict on the pair."""
        return self.within(self.explanation.verdict, self.explanation.causes[:1])

    def within(self, raw: str, causes: tuple[Cause, ...]) -> str:
        """A verdict that repeats the titles of causes as sentences."""
        for cause in causes:
            before, said, after = raw.partition(sentence(cause.title))
            if said:
                return self.names.text(before) + self.title(cause) + self.names.text(after)
        return self.names.text(raw)

    def link(self, side: str, instruction: int) -> tuple[str, str]:
        """Text and address of an instruction."""
        diff = self.explanation.diff
        module = diff.a if side == "a" else diff.b
        name = self.names.instruction(module.names[instruction], module.opcodes[instruction])
        label = self.labels[side == "b"]
        address = f"#/pair/{self.identifier}/i/{side}{instruction}"
        return f"{label}: {name[:LINK_NAME]}", address


def sentence(text: str) -> str:
    """The text with a capital first letter."""
    return text[:1].upper() + text[1:]


def seconds(value: float) -> str:
    """A duration as people say it."""
    if value == 0:
        return "0 s"
    if value < 1:
        return f"{value * 1000:.0f} ms"
    if value < 100:
        return f"{value:.1f} s"
    if value < 3600:
        return f"{value / 60:.1f} min"
    return f"{value / 3600:.1f} h"
