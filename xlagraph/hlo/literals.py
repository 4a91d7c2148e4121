"""What stands between the parentheses of a ``constant``: whether it fits its shape."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from xlagraph.errors import InputError
from xlagraph.hlo.scan import MalformedError, bracket_end, skip_space
from xlagraph.hlo.shapes import read_shape

if TYPE_CHECKING:
    from xlagraph.hlo.shapes import Shape

_COMMENT = re.compile(r"/\*.*?\*/|//[^\n]*", re.S)
_VALUE = re.compile(r"\([^()]*+(?:\([^()]*+\)[^()]*+)*+\)|[^\s,{}()]++(?:\([^()]*+\))?+")
ELIDED = "..."
"""Stands for values that were not printed."""


def check_literal(shape: str, text: str) -> None:
    """Makes sure that a literal has as many values, and as deep, as its shape says.

    Values are counted, not read: linear in the text, in C.

    Raises:
        MalformedError: it has not; the offset is one in `text`.
    """
    try:
        parsed = read_shape(shape)
    except InputError:
        return  # the shape is an error of its own
    if "/" in text:
        text = _COMMENT.sub(_blank, text)
    _check(parsed, text, 0)


def _blank(comment: re.Match[str]) -> str:
    return " " * len(comment[0])


def _check(shape: Shape, text: str, offset: int) -> None:
    if ELIDED in text:
        return
    if shape.is_tuple:
        pieces = split_tuple(text)
        if len(pieces) != len(shape.parts):
            raise MalformedError(f"expected {len(shape.parts)} literals for {shape}", offset)
        for part, (start, stop) in zip(shape.parts, pieces, strict=True):
            _check(part, text[start:stop], offset + start)
        return
    wanted, braces = shape.elements, text.count("{")
    if not wanted or (_is_counted(shape, text, wanted) and braces == _braces(shape.dimensions)):
        return
    found = len(_VALUE.findall(text))
    if found == 1 and not braces:
        return  # XLA's parser takes it for the first value, and zeros for the others
    if found != wanted:
        raise MalformedError(f"expected {wanted} values for {shape}, found {found}", offset)
    if braces != _braces(shape.dimensions):
        raise MalformedError(f"expected the values of {shape} in braces by dimension", offset)


def _is_counted(shape: Shape, text: str, wanted: int) -> bool:
    """Whether the commas between values tell that there are as many as there should be."""
    commas = text.count(",")
    if shape.element_type.startswith("c"):  # complex: (real, imaginary)
        commas -= text.count("(") - text.count("nan(")
    return commas == wanted - 1 and (wanted > 1 or bool(_VALUE.search(text)))


def _braces(dimensions: tuple[int, ...]) -> int:
    """How many opening braces an array of these dimensions has: one for each row of each rank."""
    rows, total = 1, 0
    for size in dimensions:
        total += rows
        rows *= size
    return total


def split_tuple(text: str) -> list[tuple[int, int]]:
    """Where the literals of a tuple ``( a, {b, c} )`` begin and end; commas may be missing.

    Raises:
        MalformedError: the text is no tuple.
    """
    start = skip_space(text, 0)
    if not text.startswith("(", start):
        raise MalformedError("expected a tuple of literals", start)
    end = bracket_end(text, start, len(text)) - 1
    pieces: list[tuple[int, int]] = []
    pos = _behind_commas(text, start + 1)
    while pos < end:
        word = _VALUE.match(text, pos, end)
        stop = word.end() if word and text[pos] not in "({" else bracket_end(text, pos, end)
        pieces.append((pos, stop))
        pos = _behind_commas(text, stop)
    return pieces


def _behind_commas(text: str, pos: int) -> int:
    pos = skip_space(text, pos)
    while text.startswith(",", pos):
        pos = skip_space(text, pos + 1)
    return pos
