"""The lines that set an option which a cause comes of: they run nothing and are in no graph."""

from __future__ import annotations

from typing import TYPE_CHECKING

from xlagraph.cause.model import Evidence
from xlagraph.cause.sources import MAX_LINES
from xlagraph.cause.verdict import Place
from xlagraph.message import EMPTY, Code, count, say

if TYPE_CHECKING:
    from collections.abc import Sequence

    from xlagraph.cause.model import Context, Setting
    from xlagraph.message import Message

AT_FIRST = {"training": "True", "requires_grad": "True"}
"""What options are as a layer is made; momentum may be anything."""


_MADE_IN = "__init__"
"""The function that sets an option once for each object, and not again."""


def settings_of(option: str, contexts: tuple[Context, Context]) -> tuple[Setting, ...]:
    """The statements by which an option may have changed, by place; none if they tell of no change.

    Who only sets what it is at first changes nothing, nor who always sets one and the same number,
    or sets one as an object is made.
    """
    found = sorted(
        {one for context in contexts for one in context.settings if one.option == option}
    )
    if option in AT_FIRST:
        return tuple(found) if any(one.value != AT_FIRST[option] for one in found) else ()
    later = [one for one in found if one.line.function != _MADE_IN]
    computed = [one for one in later if not one.value]
    is_one = len({one.value for one in later}) < 2
    return tuple(computed or ([] if is_one else later))


def cited(settings: Sequence[Setting]) -> tuple[Evidence, ...]:
    """The statements as evidence, a line each."""
    found = [Evidence(_words(one), sources=(one.line,)) for one in settings[:MAX_LINES]]
    if more := len(settings) - len(found):
        found.append(Evidence(say(f"the same at {count(more, 'further place')}")))
    return tuple(found)


def _words(setting: Setting) -> Message:
    to = say(" to ", Code(setting.value)) if setting.value else EMPTY
    return say(Code(f".{setting.option}"), " is set", to)


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
    function = settings[0].line.function
    if function == _MADE_IN:
        return False
    return len(lines) == 1 or (len(functions) == 1 and function != "<module>")
