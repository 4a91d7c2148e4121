"""The console that every command prints to: width-aware, plain where colour is not wanted."""

from __future__ import annotations

import os
from itertools import groupby
from typing import TYPE_CHECKING

from rich.console import Console, RenderHook
from rich.padding import Padding
from rich.segment import Segment
from rich.table import Table
from rich.text import Text

from xlagraph.message import Message, say, spans
from xlagraph.message.render import in_lines

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from rich.console import ConsoleOptions, ConsoleRenderable

    from xlagraph.cause.model import Evidence

HELD = "\ue000"
"""Stands for a space at which no line is broken, until it is printed; for private use in Unicode,
so that no text has it that passed `printable`."""
LISTING = 2
"""Columns that statements to type are moved in by."""
UNWRAPPED = 100_000
"""Columns when the output is a file or a pipe and COLUMNS is not set: a paragraph is a line."""


def console() -> Console:
    """A console on standard output; honours NO_COLOR, COLUMNS and redirection (rich)."""
    made = Console(highlight=False, markup=False, emoji=False)
    made.push_render_hook(_Unpadded())
    if not made.is_terminal and "COLUMNS" not in os.environ:
        made.width = UNWRAPPED
    return made


class _Unpadded(RenderHook):
    """Takes away the spaces with which rich fills each line of a block up to its width."""

    def process_renderables(self, renderables: list[ConsoleRenderable]) -> list[ConsoleRenderable]:
        """Called by rich with what it is about to print."""
        return [_Trimmed(one) for one in renderables]


class _Trimmed:
    """Something to print, without spaces at the ends of its lines."""

    def __init__(self, content: ConsoleRenderable):
        self.content = content

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> Iterator[Segment]:
        for line in Segment.split_lines(console.render(self.content, options)):
            yield from _trimmed(line)
            yield Segment.line()


def _trimmed(line: Iterable[Segment]) -> list[Segment]:
    kept = [Segment(s.text.replace(HELD, " "), s.style, s.control) for s in line]
    while kept and not kept[-1].control and not kept[-1].text.strip(" "):
        kept.pop()
    if kept:
        last = kept[-1]
        kept[-1] = Segment(last.text.rstrip(" "), last.style, last.control)
    return kept


def paragraph(text: Message | str, indent: int = 0, style: str = "") -> Padding:
    """A wrapped paragraph, every line indented by `indent` columns."""
    return Padding(Text(_plain(text), style=style), (0, 0, 0, indent), expand=False)


def labelled(
    label: str, text: Message | str, indent: int = 0, width: int = 0, style: str = ""
) -> Padding:
    """A label and a paragraph that wraps beside it."""
    return _labelled(label, _plain(text), indent, width, style)


def _labelled(label: str, text: str, indent: int, width: int, style: str) -> Padding:
    """The same for words that are printable already."""
    grid = Table.grid(padding=(0, 1, 0, 0))
    grid.add_column(no_wrap=True, min_width=width, style="dim")
    grid.add_column(overflow="fold", style=style)
    grid.add_row(Text(label), Text(text))
    return Padding(grid, (0, 0, 0, indent), expand=False)


def print_labelled(
    console: Console, label: str, text: Message, indent: int = 0, width: int = 0, style: str = ""
) -> None:
    """A label and a paragraph beside it; statements to type stay whole, however long they are."""
    margin = " " * (indent + width + 1 + LISTING)
    for is_listing, pieces in groupby(spans(text), lambda piece: piece[0] == "listing"):
        if is_listing:
            for line in "\n".join(said for _, said in pieces).split("\n"):
                console.print(Text(margin + printable(line), style=style), soft_wrap=True)
            continue
        words = "".join(_SHOWN.get(kind, printable)(said) for kind, said in pieces)
        console.print(_labelled(label, words.strip(" "), indent, width, style))
        label = ""


def evidence_line(evidence: Evidence) -> Message:
    """A line of evidence with the first of its source lines."""
    place = say("  [", evidence.sources[0].place, "]") if evidence.sources else say()
    return say(evidence.text, place)


def fitted(text: str, width: int) -> str:
    """A path in at most so many columns: without its first folders, then without its beginning."""
    while len(text) > width and "/" in text:
        text = text.partition("/")[2]
    return text if len(text) <= width else "…" + text[len(text) - max(width - 1, 8) :]


def _plain(text: Message | str) -> str:
    """The words; those of code stay on one line if they fit on one, and listings are moved in."""
    if isinstance(text, str):
        return printable(text)
    return in_lines((kind, _SHOWN.get(kind, printable)(said)) for kind, said in spans(text))


def _held(code: str) -> str:
    return printable(code).replace(" ", HELD)


def _listed(code: str) -> str:
    """Each line moved in; one that is too long may be broken at its spaces."""
    lines = (line.lstrip() for line in code.split("\n"))
    margins = (len(line) - len(line.lstrip()) for line in code.split("\n"))
    return "\n".join(
        HELD * (LISTING + margin) + printable(line)
        for margin, line in zip(margins, lines, strict=True)
    )


_SHOWN = {"code": _held, "listing": _listed}


def printable(text: str) -> str:
    """Text from a dump without characters that steer a terminal."""
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else f"\\x{ord(c):02x}" for c in text)
