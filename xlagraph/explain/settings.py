"""The lines that set an option which a cause comes of: they run nothing and are in no graph."""

from __future__ import annotations

from typing import TYPE_CHECKING

from xlagraph.cause.model import Evidence
from xlagraph.cause.sources import MAX_LINES
from xlagraph.cause.verdict import Place
from xlagraph.message import Code, count, say

if TYPE_CHECKING:
    from collections.abc import Sequence

    from xlagraph.cause.model import Context, Setting

AT_FIRST = {"training": "True", "requires_grad": "True"}
"""What options are as a layer is made; momentum may be anything."""


def settings_of(option: str, contexts: tuple[Context, Context]) -> tuple[Setting, ...]:
    """The statements by which an option may have changed, by place; none if they tell of no change.

    Who only sets what it is at first changes nothing, nor who always sets one and the same number.
    """
    found = sorted(
        {one for context in contexts for one in context.settings if one.option == option}
    )
    computed = [one for one in found if not one.value]
    if option not in AT_FIRST:
        is_one = len({one.value for one in found}) < 2
        return tuple(computed or ([] if is_one else found))
    return tuple(found) if any(one.value != AT_FIRST[option] for one in found) else ()


def cited(settings: Sequence[Setting]) -> tuple[Evidence, ...]:
    """The statements as evidence."""
    if not settings:
        return ()
    lines = tuple(one.line for one in settings[:MAX_LINES])
    places = f" at {count(len(settings), 'place')}" if len(settings) > MAX_LINES else ""
    text = say(Code(f".{settings[0].option}"), f" is set{places}")
    return (Evidence(text, sources=lines),)


def set_there(
    place: Place, settings: Sequence[Setting], contexts: tuple[Context, Context]
) -> Place:
    """The place, moved to the statement that sets the option, where one function does it alone.

    One that sets it back at its end, as an evaluation does, is not taken for it.
    """
    if not settings or not _is_one_place(settings):
        return place
    at_first = AT_FIRST.get(settings[0].option)
    if settings[-1].value == at_first:
        return place
    line = next(one.line for one in settings if one.value != at_first)
    source = next(filter(None, (context.around(line) for context in reversed(contexts))), ())
    return Place(line, (line,), source, place.tensors, sets=settings[0].option)


def _is_one_place(settings: Sequence[Setting]) -> bool:
    lines = {one.line for one in settings}
    functions = {(line.file, line.function) for line in lines}
    return len(lines) == 1 or (len(functions) == 1 and settings[0].line.function != "<module>")
