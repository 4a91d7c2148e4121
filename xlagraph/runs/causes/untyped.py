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
from xlagraph.runs.causes.stated import placed_anew

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from xlagraph.cause.model import Cause
    from xlagraph.run.reader import Process
    from xlagraph.run.records import SettingRecord
    from xlagraph.runs.model import CauseGroup

UNTYPED = "untyped"
"""What the capture names calls that take a dtype from the values they are given."""
_NARROW = re.compile(r"\b(?:bf16|f16|f8\w*)\b")
_NAME = re.compile(r"\w+")


def with_makers(
    groups: Sequence[CauseGroup], processes: Iterable[Process]
) -> tuple[CauseGroup, ...]:
    """The groups, with the call that makes an input of changing dtype, where one may have.

    Args:
        groups: with the text of their places.
        processes: whose programs say where they make tensors.
    """
    calls = [one for p in processes for one in p.settings if one.option == UNTYPED]
    placed = [
        (_made(group, values, calls) or group) if (values := _of_values(group)) else group
        for group in groups
    ]
    return placed_anew(groups, placed)


def _of_values(group: CauseGroup) -> Cause | None:
    """The cause that says: an input comes in a dtype that may be taken from values.

    The group's own, or one that most of its graphs have beside other types further on; these follow
    from what comes in, but for the narrow ones, which autocast makes.
    """
    if group.kind is not DTYPE or group.expected or not group.cause:
        return None
    own = group.cause
    beside = () if _NARROW.search(str(own.title)) else group.frequent
    found = (one for one in (own, *beside) if one.kind is DTYPE)
    return next((one for one in found if one.short_fix == FROM_VALUES.short_fix), None)


def _made(group: CauseGroup, values: Cause, calls: Sequence[SettingRecord]) -> CauseGroup | None:
    """The group as what comes of the one function that makes such inputs; None if it is not known.

    What else differs in types there follows from them.
    """
    sent = values.place.line
    text = dict(group.place.source).get(sent.line, "") if sent and values is group.cause else ""
    named = [one for one in calls if one.value in _NAME.findall(text)]
    found = named if len(named) == 1 else calls
    lines = sorted({SourceLine(one.file, one.line, one.function) for one in found})
    if len({(line.file, line.function) for line in lines}) != 1 or sent in lines:
        return None
    own = group.title if values is group.cause else values.title
    title = say(own, "; a dtype is taken from the values at ", join(lines, 3))
    place = Place(lines[0], tensors=values.place.tensors)
    return replace(
        group,
        title=title,
        cause=replace(values, title=title, place=place),
        place=place,
        further=tuple(one for one in group.further if one is not values),
        frequent=tuple(one for one in group.frequent if one is not values),
    )
