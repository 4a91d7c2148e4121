"""Sentences, durations, source lines and links as a report writes them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from xlagraph.cause.model import Explanation
    from xlagraph.report.names import Names

LINK_NAME = 40
"""Characters of an instruction's name in the text of a link."""


@dataclass(frozen=True, slots=True, eq=False)
class ShownPair:
    """An explanation, what the page calls its two sides, and where it shows them."""

    names: Names
    explanation: Explanation
    labels: tuple[str, str]
    identifier: str
    """Of the pair view, ``""`` where the report has none."""

    def link(self, side: str, instruction: int) -> tuple[str, str]:
        """Text and address of an instruction."""
        diff = self.explanation.diff
        module = diff.a if side == "a" else diff.b
        name = self.names.instruction(module.names[instruction], module.opcodes[instruction])
        label = self.labels[side == "b"]
        address = f"#/pair/{self.identifier}/i/{side}{instruction}"
        return f"{label}: {name[:LINK_NAME]}", address


def source_line(line: str, names: Names) -> str:
    """A ``file:line`` under the report's names."""
    file, colon, number = line.rpartition(":")
    return f"{names.path(file)}:{number}" if colon and number.isdecimal() else names.text(line)
