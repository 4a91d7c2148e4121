"""Where the program makes an input whose dtype is taken from the values, and so changes.

Seen is where it is sent to the device; the line to edit is the one that makes it on the host.
"""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING

from xlagraph.cause.verdict import Place
from xlagraph.message import SourceLine, join, say
from xlagraph.rules.dtypes.dtype import DTYPE, FROM_VALUES

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from xlagraph.run.reader import Process
    from xlagraph.run.records import SettingRecord
    from xlagraph.runs.model import CauseGroup

UNTYPED = "untyped"
"""What the capture names calls that take a dtype from the values they are given."""
_NAME = re.compile(r"\w+")


def with_makers(
    groups: Iterable[CauseGroup], processes: Iterable[Process]
) -> tuple[CauseGroup, ...]:
    """The groups, with the call that makes an input of changing dtype, where one may have.

    Args:
        groups: with the text of their places.
        processes: whose programs say where they make tensors.
    """
    calls = [one for p in processes for one in p.settings if one.option == UNTYPED]
    return tuple(_made(group, calls) if _is_of_values(group) else group for group in groups)


def _is_of_values(group: CauseGroup) -> bool:
    """Whether it may come of values that an input has another dtype."""
    is_input = group.cause is not None and group.cause.short_fix == FROM_VALUES.short_fix
    return group.kind is DTYPE and is_input and not group.expected


def _made(group: CauseGroup, calls: Sequence[SettingRecord]) -> CauseGroup:
    sent = group.place.line
    text = dict(group.place.source).get(sent.line, "") if sent else ""
    named = [one for one in calls if one.value in _NAME.findall(text)]
    found = named if len(named) == 1 else calls
    lines = sorted({SourceLine(one.file, one.line, one.function) for one in found})
    if len({(line.file, line.function) for line in lines}) != 1 or sent in lines:
        return group
    title = say(group.title, "; a dtype is taken from the values at ", join(lines, 3))
    place = Place(lines[0], tensors=group.place.tensors)
    cause = group.cause and replace(group.cause, title=title, place=place)
    return replace(group, title=title, cause=cause, place=place)
