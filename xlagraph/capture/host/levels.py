"""The levels of capture, for ``XLAGRAPH``, ``xlagraph run --level`` and ``capture(level=)``."""

from __future__ import annotations

from dataclasses import dataclass

from xlagraph.capture.host.inherited import OFF
from xlagraph.errors import XlagraphError


class OptionError(XlagraphError, ValueError):
    """A variable or option with a value that cannot be read; the message names it."""


@dataclass(frozen=True, slots=True)
class Level:
    """How much is recorded."""

    name: str
    lines: bool
    """Graphs have the program's lines, for which torch_xla keeps the Python stack of each
    operation that it traces."""
    tensors: bool
    """The live tensors of the steps asked for are recorded, with what they are."""
    meaning: str


LEVELS = {
    level.name: level
    for level in (
        Level("watch", lines=False, tensors=False, meaning="always on, without source lines"),
        Level("1", lines=True, tensors=False, meaning="with source lines"),
        Level("2", lines=True, tensors=True, meaning="also live tensors"),
    )
}
WATCH, LINES, TENSORS = LEVELS.values()
_ON = ("yes", "true", "on")
MEANING = "; ".join(f"{level.name}: {level.meaning}" for level in LEVELS.values())
"""All of them, for the command's help."""
_WANT = f"want watch, 1 (or {', '.join(_ON)}), 2, or 0 (or {', '.join(OFF[2:])}: no capture)"


def level_of(value: object, what: str = "level") -> Level:
    """The level of this name; ``what`` names the option in the message.

    Raises:
        OptionError: there is none.
    """
    text = str(value).strip().lower()
    if text in _ON:
        return LINES
    if text not in LEVELS:
        raise OptionError(f"{what}: {_WANT}; got {str(value)!r}")
    return LEVELS[text]
