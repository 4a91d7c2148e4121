"""Where in a step of the program a piece is computed that several lines of a function make."""

from __future__ import annotations

from typing import TYPE_CHECKING

from xlagraph.cause.sources import called_within
from xlagraph.facts.program.enclosing import enclosing

if TYPE_CHECKING:
    from collections.abc import Sequence

    from xlagraph.cause.case import SideView
    from xlagraph.cause.model import Context
    from xlagraph.message import SourceLine


def within_step(view: SideView, piece: Sequence[int], called: SourceLine) -> SourceLine:
    """The line that a piece is called from; one that runs once a step is left for the first within.

    `called`: the innermost line that all of the piece is called from.
    """
    line: SourceLine | None = called
    while line and _is_once_a_step(view.context, line):
        called, line = line, called_within(view.module, piece, line)
    return line or called


def _is_once_a_step(context: Context, line: SourceLine) -> bool:
    """Whether the end of the step is called from a line, or lies in the loop around it."""
    site = context.call_site
    if site is None:
        return False
    place = line.file, line.line
    if any((frame.file, frame.line) == place for frame in context.stacks.get(site, ())):
        return True
    loop, end = (enclosing(context.program, [one]) for one in (line, site))
    return loop is not None and end is not None and loop.loop[:2] == end.loop[:2]
