"""Reads that are none in the program's text: of how many elements a mask keeps, or unique finds."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from xlagraph.facts.shapes.size_makers import BY_CALL
from xlagraph.message import say
from xlagraph.rules.pieces.early_execution import EARLY_EXECUTION

if TYPE_CHECKING:
    from collections.abc import Iterable

    from xlagraph.facts.program.enclosing import ProgramText
    from xlagraph.facts.shapes.size_makers import SizeMaker
    from xlagraph.runs.model import CauseGroup


def with_counts(groups: Iterable[CauseGroup], program: ProgramText) -> tuple[CauseGroup, ...]:
    """The groups, steps that are cut where a size is counted with what mends that.

    There is no value to be read later: the size has to go.
    """
    return tuple(_counted(group, program) for group in groups)


def _counted(group: CauseGroup, program: ProgramText) -> CauseGroup:
    maker = _maker(group, program)
    if maker is None or group.expected:
        return group
    title = say(group.title, f"; the {maker.what} is counted there, on the device")
    told = replace(group, title=title)
    if group.cause is None:
        return replace(told, mend=(say(maker.fix), maker.short_fix))
    cause = replace(group.cause, title=title, fix=say(maker.fix), short_fix=maker.short_fix)
    return replace(told, cause=cause)


def _maker(group: CauseGroup, program: ProgramText) -> SizeMaker | None:
    """What makes a size in the line at which a step is cut; None if it is cut by nothing else."""
    line = group.place.line
    if group.kind is not EARLY_EXECUTION or line is None:
        return None
    text = program.lines.get(line.file, {}).get(line.line, "")
    return next((maker for pattern, maker in BY_CALL if pattern.search(text)), None)
