"""What a program keeps from step to step: lists whose next place each step fills."""

from __future__ import annotations

import re
from collections import defaultdict
from dataclasses import replace
from typing import TYPE_CHECKING

from xlagraph.cause.model import Evidence
from xlagraph.cause.names import holder_name
from xlagraph.message import EMPTY, join, say
from xlagraph.runs.graphs.context import own_frame

if TYPE_CHECKING:
    from collections.abc import Sequence

    from xlagraph.message import Message, SourceLine
    from xlagraph.run.records import SyncRecord
    from xlagraph.runs.model import GraphNode
    from xlagraph.tensors import Holder

_PLACE = re.compile(r"(.+)\[(\d+)\]")
"""``losses[3]``: a container and the place in it."""


def held_in_places(sync: SyncRecord | None) -> tuple[tuple[Holder, SourceLine | None], ...]:
    """The holders that are a place in a container, and where the tensor was made."""
    return tuple(
        (holder, own_frame(tensor.created))
        for tensor in (sync.live_tensors if sync else ())
        for holder in tensor.holders
        if _PLACE.fullmatch(holder.name)
    )


def kept(members: Sequence[GraphNode]) -> tuple[Message, tuple[Evidence, ...]]:
    """Containers with another place filled in each graph, and where what they hold is made.

    Nothing where the capture did not look for holders (``XLAGRAPH_HOLDERS=1``), or where only one
    place is filled: a list that is made anew in each step.
    """
    places: defaultdict[Holder, set[int]] = defaultdict(set)
    made: defaultdict[Holder, dict[SourceLine, None]] = defaultdict(dict)
    for node in members:
        for holder, line in node.held:
            match = _PLACE.fullmatch(holder.name)
            if match:
                container = replace(holder, name=match[1])
                places[container].add(int(match[2]))
                made[container].update({line: None} if line else {})
    growing = [container for container, found in places.items() if len(found) > 1]
    if not growing:
        return EMPTY, ()
    lines = tuple(line for container in growing for line in made[container])[:3]
    names = join(map(holder_name, growing))
    place = say(", made at ", lines[0]) if lines else say()
    text = say("kept from step to step in ", names, ": one tensor more in each graph")
    return say("; kept in ", names, place), (Evidence(text, sources=lines),)
