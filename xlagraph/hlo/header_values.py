"""Header fields as values: aliases, donors, and the entry's parameter and result shapes."""

from __future__ import annotations

from dataclasses import dataclass

from xlagraph.errors import InputError, Location, Source
from xlagraph.hlo.scan import MalformedError, skip_space
from xlagraph.hlo.shapes import Shape, parse_shape
from xlagraph.patterns import re

_INDEX = r"\{([\d,\s]*+)\}"
_INPUT = rf"\(\s*+(\d{{1,9}})\s*+,\s*+{_INDEX}\s*+(?:,\s*+([\w\-]++)\s*+)?+\)"
_ALIAS = re.compile(rf"\s*+{_INDEX}\s*+:\s*+{_INPUT}\s*+(?:,|(?=\}}))")
_DONOR = re.compile(rf"\s*+{_INPUT}\s*+(?:,|(?=\}}))")
_DIGITS = re.compile(r"\d{1,9}(?!\d)")


@dataclass(frozen=True, slots=True)
class Alias:
    """One entry of ``input_output_alias``: an output that takes over an input's buffer."""

    output: tuple[int, ...]
    """Index into the result, ``()`` for the whole."""
    parameter: int
    index: tuple[int, ...]
    """Index into the parameter."""
    kind: str
    """``may-alias`` or ``must-alias``; ``""`` where none is printed."""


@dataclass(frozen=True, slots=True)
class Donor:
    """One entry of ``buffer_donor``: an input whose buffer XLA may reuse."""

    parameter: int
    index: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class EntryLayout:
    """``entry_computation_layout``: shapes with layouts, as the caller has to pass them."""

    parameters: tuple[Shape, ...]
    result: Shape


def read_aliases(text: str) -> tuple[Alias, ...]:
    """Reads ``{ {0}: (0, {}, may-alias), ... }``.

    Raises:
        InputError: the text is something else.
    """
    return tuple(
        Alias(_indices(found[1]), int(found[2]), _indices(found[3]), found[4] or "")
        for found in _list(text, _ALIAS, "an alias: {output}: (parameter, {index}, kind)")
    )


def read_donors(text: str) -> tuple[Donor, ...]:
    """Reads ``{ (0, {}), (1, {}) }``.

    Raises:
        InputError: the text is something else.
    """
    found = _list(text, _DONOR, "a donor: (parameter, {index})")
    return tuple(Donor(int(match[1]), _indices(match[2])) for match in found)


def read_entry_layout(text: str) -> EntryLayout:
    """Reads ``{(f32[2]{0}, f32[])->(f32[2]{0})}``.

    Raises:
        InputError: the text is something else.
    """
    try:
        start = skip_space(text, 1 if text.startswith("{") else 0)
        taken, pos = parse_shape(text, start, len(text))
        pos = skip_space(text, pos)
        if not text.startswith("->", pos):
            raise _error("expected '->'", text, pos)
        result, _ = parse_shape(text, skip_space(text, pos + 2), len(text))
    except MalformedError as error:
        raise _error(str(error), text, error.offset) from None
    return EntryLayout(taken.parts, result)


def _list(text: str, item: re.Pattern[str], wanted: str) -> list[re.Match[str]]:
    if not text.startswith("{"):
        raise _error("expected '{'", text, 0)
    found: list[re.Match[str]] = []
    pos = skip_space(text, 1)
    while not text.startswith("}", pos):
        match = item.match(text, pos)
        if not match:
            raise _error(f"expected {wanted}", text, pos)
        found.append(match)
        pos = skip_space(text, match.end())
    return found


def _indices(text: str) -> tuple[int, ...]:
    return tuple(int(digits) for digits in _DIGITS.findall(text))


def _error(message: str, text: str, offset: int) -> InputError:
    return InputError(message, Location(Source("<header>", text), offset))
