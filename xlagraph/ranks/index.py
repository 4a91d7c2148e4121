"""Graphs of ranks that differ only by each rank's own number."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from xlagraph.patterns import re

if TYPE_CHECKING:
    from collections.abc import Mapping

    from xlagraph.graph import Module

_NUMBER = re.compile(r"-?\d+(?:\.\d+)?(?:e[+-]?\d+)?")
MIN_RANKS = 3
"""Two numbers are always in line."""
TOLERANCE = 1e-6
MAX_TEXT = 1_000_000
"""Characters of what differs between two modules that are looked at."""


@dataclass(frozen=True, slots=True)
class Numbers:
    """What ranks have each in its own way."""

    instructions: tuple[int, ...]
    """Of each of the modules."""
    first: float
    """The number on the lowest rank, at the first place."""
    step: float
    """What it grows by from rank to rank."""


@dataclass(frozen=True, slots=True)
class Differing:
    """Where a module differs from another one that is built alike."""

    places: tuple[int, ...]
    """Instructions, ascending."""
    first: tuple[str, ...]
    """What each says of itself in the module compared from."""
    other: tuple[str, ...]


def differing(first: Module, other: Module) -> Differing | None:
    """Where modules differ, instruction by instruction, as programs that were traced alike do.

    None where they differ in more than literals, numbers of parameters and attributes, or in more
    text than numbers of ranks need.
    """
    if _frame(first) != _frame(other):
        return None
    texts = zip(_texts(first), _texts(other), strict=True)
    found = [(k, one, two) for k, (one, two) in enumerate(texts) if one != two]
    if sum(len(one) + len(two) for _, one, two in found) > MAX_TEXT:
        return None
    places, ones, twos = zip(*found, strict=True) if found else ((), (), ())
    return Differing(places, ones, twos)


def own_numbers(lowest: int, compared: Mapping[int, Differing]) -> Numbers | None:
    """What differs between the modules of ranks, if that is ``a + b * rank`` at every place.

    Args:
        lowest: the rank whose module the others are compared with.
        compared: by rank, ascending, where its module differs from that.
    """
    if len(compared) + 1 < MIN_RANKS:
        return None
    base = {k: t for one in compared.values() for k, t in zip(one.places, one.first, strict=True)}
    others = {rank: dict(zip(one.places, one.other, strict=True)) for rank, one in compared.items()}
    places = sorted(base)
    lines: list[tuple[float, float]] = []
    for place in places:
        texts = {rank: mine.get(place, base[place]) for rank, mine in others.items()}
        line = _in_line({lowest: base[place], **texts})
        if line is None:
            return None
        lines.append(line)
    return Numbers(tuple(places), *lines[0]) if lines else None


def _frame(module: Module) -> tuple[object, ...]:
    """What has to be equal: all but literals, numbers of parameters and attributes."""
    return module.opcodes, module.shapes, module.operands, module.header


def _texts(module: Module) -> list[str]:
    """What an instruction says of itself: its literal or number, and its attributes."""
    return [
        f"{module.payloads.get(i, '')} {attributes.items}"
        for i, attributes in enumerate(module.attributes)
    ]


def _in_line(texts: Mapping[int, str]) -> tuple[float, float] | None:
    """Start and step of the first number that differs, if all that differ lie on lines."""
    if len({_NUMBER.sub("#", text) for text in texts.values()}) > 1:
        return None
    columns = zip(*(map(float, _NUMBER.findall(text)) for text in texts.values()), strict=True)
    ranks = list(texts)
    found: tuple[float, float] | None = None
    for column in columns:
        step = (column[1] - column[0]) / (ranks[1] - ranks[0])
        for rank, value in zip(ranks, column, strict=True):
            wanted = column[0] + step * (rank - ranks[0])
            if abs(value - wanted) > TOLERANCE * max(1.0, abs(value)):
                return None
        if step and found is None:
            found = column[0], step
    return found
